//! Record batches of magic 2, as small as they can be: neither keys nor headers nor compression.

use kafka_protocol::wire::Bytes;

/// A batch of records with these values.
pub(super) fn encode(values: &[impl AsRef<str>]) -> Bytes {
    let last = (values.len() - 1) as i32;
    // From the attributes on, which is where the checksum begins.
    let mut body = Vec::new();
    body.extend(0_i16.to_be_bytes());
    body.extend(last.to_be_bytes());
    body.extend([0; 16]); // timestamps
    body.extend((-1_i64).to_be_bytes()); // producer id
    body.extend((-1_i16).to_be_bytes()); // producer epoch
    body.extend((-1_i32).to_be_bytes()); // base sequence
    body.extend((last + 1).to_be_bytes());
    for (delta, value) in (0..).zip(values) {
        let value = value.as_ref().as_bytes();
        let mut record = vec![0]; // attributes
        put_varint(&mut record, 0); // timestamp delta
        put_varint(&mut record, delta);
        put_varint(&mut record, -1); // no key
        put_varint(&mut record, value.len() as i64);
        record.extend(value);
        put_varint(&mut record, 0); // no headers
        put_varint(&mut body, record.len() as i64);
        body.extend(record);
    }
    let mut batch = Vec::new();
    batch.extend(0_i64.to_be_bytes()); // base offset
    batch.extend((body.len() as i32 + 9).to_be_bytes());
    batch.extend((-1_i32).to_be_bytes()); // partition leader epoch
    batch.push(2);
    batch.extend(crc32c(&body).to_be_bytes());
    batch.extend(body);
    batch.into()
}

fn put_varint(to: &mut Vec<u8>, value: i64) {
    let mut rest = ((value << 1) ^ (value >> 63)) as u64;
    while rest >= 0x80 {
        to.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    to.push(rest as u8);
}

fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0x82f6_3b78 * (crc & 1)))
    })
}
