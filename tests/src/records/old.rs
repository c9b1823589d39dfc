//! Messages of the old formats.

use kafka_protocol::records::{BatchBuilder, BatchHeader, Batches, Compression, ReadOptions};

/// A message of magic 0, which has no timestamp, or of magic 1.
pub(super) struct Message<'a> {
    pub magic: u8,
    pub attributes: u8,
    pub offset: i64,
    pub timestamp: i64,
    pub key: Option<&'a [u8]>,
    pub value: Option<&'a [u8]>,
}

impl Message<'_> {
    /// The message as it is written.
    pub(super) fn to_vec(&self) -> Vec<u8> {
        let mut content = vec![self.magic, self.attributes];
        if self.magic == 1 {
            content.extend_from_slice(&self.timestamp.to_be_bytes());
        }
        for bytes in [self.key, self.value] {
            let length = bytes.map_or(-1, |bytes| bytes.len() as i32);
            content.extend_from_slice(&length.to_be_bytes());
            content.extend_from_slice(bytes.unwrap_or_default());
        }
        message_of(self.offset, &content)
    }
}

/// A message with everything that its checksum covers.
pub(super) fn message_of(offset: i64, content: &[u8]) -> Vec<u8> {
    let mut crc = flate2::Crc::new();
    crc.update(content);
    let length = content.len() as i32 + 4;
    [&offset.to_be_bytes()[..], &length.to_be_bytes(), &crc.sum().to_be_bytes(), content].concat()
}

/// Bytes in a codec: what becomes of them as records of a batch with this header, which are not looked at.
///
/// # Errors
///
/// What recompressing says.
pub(super) fn stream(
    header: &BatchHeader,
    compression: Compression,
    bytes: &[u8],
) -> Result<Vec<u8>, Box<dyn std::error::Error>> {
    let mut batch = Vec::new();
    let start = BatchBuilder::from_header(header).finish_into(&mut batch)?;
    batch.extend_from_slice(bytes);
    let length = batch.len() as i32 - 12;
    batch[8..12].copy_from_slice(&length.to_be_bytes());
    let options = ReadOptions { check_crc: false, ..Default::default() };
    let batch = Batches::from_slice(&batch).next().ok_or("no batch")??;
    Ok(batch.recompress(compression, None, &options)?.split_off(start).into())
}
