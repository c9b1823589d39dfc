//! Every reason for which bytes are no records: the place that it names, and its words.

use std::error::Error as _;

use kafka_protocol::protocol::ErrorCode;
use kafka_protocol::records::{
    Attributes, BatchBuilder, Batches, Compression, ReadOptions, RecordsError, RecordsReason, Stage,
};
use kafka_protocol::wire::Bytes;

use super::make::{
    ATTRIBUTES, COUNT, LENGTH, MAGIC, RECORDS, batch, batch_of, batch_of_bytes, gzip, header, message, only,
    patched, wrapper,
};
use super::old::message_of;

const OPTIONS: ReadOptions = ReadOptions { check_crc: true, max_size: 1 << 16, max_ratio: 1000 };

/// The first thing that is wrong, if one looks for records behind a whole batch.
fn error_of(bytes: &Bytes) -> RecordsError {
    let before = batch(Compression::None);
    let bytes = Bytes::from([&before[..], bytes].concat());
    for batch in Batches::new(&bytes) {
        let read = batch.and_then(|batch| {
            let records = batch.records_with(&OPTIONS)?;
            records.to_vec()?;
            if batch.header().is_control() {
                records.control().try_for_each(|record| record.map(drop))
            } else {
                Ok(())
            }
        });
        if let Err(error) = read {
            assert_eq!((error.batch(), error.position()), (1, before.len()), "{error}");
            assert_eq!(error.base_offset().to_be_bytes(), bytes[before.len()..][..8]);
            return error;
        }
    }
    panic!("can be read")
}

/// The same, with stage and record in front.
fn said(bytes: impl Into<Bytes>) -> String {
    let error = error_of(&bytes.into());
    let text = error.to_string();
    let start =
        format!("record batch 1 at byte {} (base offset {}): ", error.position(), error.base_offset());
    let text = text.strip_prefix(&start).unwrap_or_else(|| panic!("{text}"));
    let record = error.record().map_or(String::new(), |record| format!("record {record}: "));
    assert!(text.starts_with(&record), "{text}");
    format!("{:?}: {text}", error.stage())
}

fn with(at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut batch = batch(Compression::None).to_vec();
    batch[at..at + bytes.len()].copy_from_slice(bytes);
    batch
}

/// A batch of one record of these bytes, behind the right length.
fn record(body: &[u8]) -> Bytes {
    batch_of_bytes(1, &[&[2 * body.len() as u8], body].concat())
}

#[test]
fn splitting() {
    assert_eq!(said(with(LENGTH, &13_i32.to_be_bytes())), "Split: a length of 13, at least 14 needed");
    assert_eq!(said(with(LENGTH, &(-1_i32).to_be_bytes())), "Split: a length of -1, at least 14 needed");
    assert_eq!(
        said(with(LENGTH, &(i32::MAX - 11).to_be_bytes())),
        "Split: a length of 2147483636 is too large"
    );
    assert_eq!(said(with(MAGIC, &[3])), "Split: no format has the magic byte 3");
    assert_eq!(said(with(MAGIC, &[0xff])), "Split: no format has the magic byte -1");
    assert_eq!(said(with(LENGTH, &48_i32.to_be_bytes())), "Checksum: a length of 48, at least 49 needed");
    // The largest length that there can be is that of a batch that is cut.
    let cut = Bytes::from(with(LENGTH, &(i32::MAX - 12).to_be_bytes()));
    let mut batches = Batches::new(&cut);
    assert!(batches.next().is_none());
    assert_eq!(batches.trailing(), cut);
}

#[test]
fn headers() {
    assert_eq!(
        said(with(17, &[0; 4])),
        "Checksum: the checksum is 0x00000000, that of the content 0x83438c24"
    );
    assert_eq!(
        said(patched(&batch(Compression::None), ATTRIBUTES, &[0, 5])),
        "Header: there is no codec 5 in this format"
    );
    assert_eq!(
        said(patched(&batch(Compression::None), COUNT, &(-1_i32).to_be_bytes())),
        "Records: -1 records announced, 0 found and 0 bytes behind them"
    );
}

#[test]
fn streams() {
    for compression in Compression::ALL {
        let damaged = patched(&batch(compression), RECORDS, &[0xff; 12]);
        let error = error_of(&damaged);
        match error.reason() {
            RecordsReason::Decompress { compression: of, message } => {
                assert_eq!((*of, error.stage(), error.record()), (compression, Stage::Records, None));
                let text = format!(": the {compression} stream is damaged: {message}");
                assert!(!message.is_empty() && error.to_string().ends_with(&text), "{error}");
            }
            _ => assert_eq!(compression, Compression::None),
        }
        let large = batch_of_bytes(1, &vec![0; 1 << 16]);
        let large = only(&large).recompress(compression, None, &ReadOptions::default()).unwrap();
        let one_more = ReadOptions { max_size: (1 << 16) - 1, ..OPTIONS };
        let read = only(&large).records_with(&one_more).map(|records| records.as_bytes().len());
        match compression {
            // They are there already.
            Compression::None => assert_eq!(read, Ok(1 << 16)),
            _ => assert_eq!(
                read.unwrap_err().to_string(),
                "record batch 0 at byte 0 (base offset 0): more than 65535 bytes come out of the compressed stream"
            ),
        }
        assert_eq!(only(&large).records_with(&OPTIONS).unwrap().as_bytes().len(), 1 << 16);
    }
    let disabled = RecordsReason::CompressionDisabled { compression: Compression::Snappy };
    assert_eq!(disabled.to_string(), "compressed with snappy, the feature of that name is off");
}

#[test]
fn counts() {
    let three = |count: i32| patched(&batch(Compression::None), COUNT, &count.to_be_bytes());
    assert_eq!(said(three(2)), "Records: 2 records announced, 2 found and 17 bytes behind them");
    assert_eq!(said(three(4)), "Records: record 3: 4 records announced, 3 found and 0 bytes behind them");
    assert_eq!(said(three(0)), "Records: 0 records announced, 0 found and 51 bytes behind them");
    assert_eq!(
        said(three(i32::MAX)),
        "Records: record 3: 2147483647 records announced, 3 found and 0 bytes behind them"
    );
    assert_eq!(
        said(three(i32::MIN)),
        "Records: -2147483648 records announced, 0 found and 0 bytes behind them"
    );
}

#[test]
fn records() {
    // Attributes, deltas, key, value, number of headers.
    assert_eq!(said(record(&[])), "Records: record 0: attributes: need 1 bytes, 0 left");
    assert_eq!(said(record(&[0])), "Records: record 0: timestamp delta: need 1 bytes, 0 left");
    assert_eq!(said(record(&[0, 0])), "Records: record 0: offset delta: need 1 bytes, 0 left");
    assert_eq!(said(record(&[0, 0, 0])), "Records: record 0: key: need 1 bytes, 0 left");
    assert_eq!(said(record(&[0, 0, 0, 1])), "Records: record 0: value: need 1 bytes, 0 left");
    assert_eq!(said(record(&[0, 0, 0, 1, 1])), "Records: record 0: number of headers: need 1 bytes, 0 left");
    assert_eq!(said(record(&[0, 0, 0, 1, 1, 0, 7])), "Records: record 0: 1 bytes behind its last header");
    assert_eq!(said(record(&[0, 0, 0, 3, 1, 0])), "Records: record 0: key: -2 is negative");
    assert_eq!(said(record(&[0, 0, 0, 1, 4, b'v'])), "Records: record 0: value: need 2 bytes, 1 left");
    assert_eq!(
        said(record(&[&[0][..], &[0x80; 10], &[0, 1, 1, 0]].concat())),
        "Records: record 0: timestamp delta: the varint is too long"
    );
    assert_eq!(
        said(record(&[0, 0, 0x80, 0x80, 0x80, 0x80, 0x10, 1, 1, 0])),
        "Records: record 0: offset delta: the varint is too long"
    );
    assert_eq!(
        said(record(&[0, 0, 0, 1, 1, 0x80, 0x80, 0x80, 0x80, 0x80])),
        "Records: record 0: number of headers: the varint is too long"
    );
    assert_eq!(
        said(batch_of_bytes(1, &[0x80])),
        "Records: record 0: length of a record: need 2 bytes, 1 left"
    );
    assert_eq!(said(batch_of_bytes(1, &[1])), "Records: record 0: length of a record: -1 is negative");
    assert_eq!(said(batch_of_bytes(1, &[14, 0, 0, 0])), "Records: record 0: record: need 7 bytes, 3 left");
}

#[test]
fn headers_of_records() {
    let headers = |bytes: &[u8]| said(record(&[&[0, 0, 0, 1, 1], bytes].concat()));
    assert_eq!(headers(&[1]), "Records: record 0: number of headers: -1 is negative");
    assert_eq!(headers(&[2]), "Records: record 0: headers: need 2 bytes, 0 left");
    assert_eq!(
        headers(&[0xfe, 0xff, 0xff, 0xff, 0xf]),
        "Records: record 0: headers: need 4294967294 bytes, 0 left"
    );
    assert_eq!(headers(&[2, 1, 1]), "Records: record 0: length of a header key: -1 is negative");
    assert_eq!(headers(&[2, 2, 0xff, 1]), "Records: record 0: the key of a header is not UTF-8");
    assert_eq!(headers(&[2, 4, b'k']), "Records: record 0: header key: need 2 bytes, 1 left");
    assert_eq!(headers(&[2, 0, 3]), "Records: record 0: header value: -2 is negative");
    assert_eq!(headers(&[2, 0, 4, 1]), "Records: record 0: header value: need 2 bytes, 1 left");
}

#[test]
fn offsets_that_overflow() {
    let one = batch_of_bytes(1, &[12, 0, 0, 2, 1, 1, 0]);
    assert_eq!(
        said(patched(&one, 0, &i64::MAX.to_be_bytes())),
        "Records: record 0: the offset 9223372036854775807 + 1 overflows"
    );
    let one = batch_of_bytes(1, &[12, 0, 0, 1, 1, 1, 0]);
    assert_eq!(
        said(patched(&one, 0, &i64::MIN.to_be_bytes())),
        "Records: record 0: the offset -9223372036854775808 + -1 overflows"
    );
}

#[test]
fn old_formats() {
    let [one, other] = [b"one", b"two"].map(|value| message(1, 0, 3, Some(value)));
    let of_magic_0 = |rest: &[u8]| message_of(7, &[&[0, 0], rest].concat());
    assert_eq!(
        said(of_magic_0(&[0xff, 0xff, 0xff, 0xfe, 0, 0, 0, 0])),
        "Records: record 0: key: -2 is negative"
    );
    assert_eq!(said(of_magic_0(&[0, 0, 0, 9, 0, 0, 0, 0])), "Records: record 0: key: need 9 bytes, 4 left");
    assert_eq!(
        said(of_magic_0(&[0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 7])),
        "Records: record 0: 1 bytes behind its last header"
    );
    assert_eq!(said(message(1, 4, 7, Some(b"v"))), "Records: record 0: there is no codec 4 in this format");
    assert_eq!(
        said(message(1, 1, 7, None)),
        "Records: record 0: value of a compressed message: need 1 bytes, 0 left"
    );
    assert_eq!(
        said(message(1, 1, 7, Some(&gzip(b"")))),
        "Records: record 0: compressed messages: need 1 bytes, 0 left"
    );
    let damaged = said(message(1, 1, 7, Some(b"no stream")));
    assert!(damaged.starts_with("Records: the gzip stream is damaged: "), "{damaged}");
    assert_eq!(
        said(wrapper(1, 0, 7, &[one[..11].to_vec()])),
        "Records: record 0: offset and length of a message: need 12 bytes, 11 left"
    );
    assert_eq!(
        said(wrapper(1, 0, 7, &[one.clone(), other[..20].to_vec()])),
        "Records: record 1: message: need 37 bytes, 20 left"
    );
    assert_eq!(
        said(wrapper(1, 0, 7, &[one.clone(), message(0, 0, 4, None)])),
        "Records: record 1: a message of magic 0 in a compressed one of magic 1"
    );
    assert_eq!(
        said(wrapper(1, 0, 7, &[message(1, 1, 3, Some(&gzip(&one)))])),
        "Records: record 0: a compressed message in a compressed one"
    );
    assert_eq!(
        said(wrapper(1, 0, 7, &[[&one[..8], &13_i32.to_be_bytes()].concat()])),
        "Records: record 0: a length of 13, at least 14 needed"
    );
    let mut damaged = one.clone();
    damaged[12..16].fill(0);
    assert_eq!(
        said(wrapper(1, 0, 7, &[one.clone(), damaged])),
        "Records: record 1: the checksum is 0x00000000, that of the content 0xfcf1cbbf"
    );
    // The last one is at the offset of the wrapper, the others before it: not below 0, and not beyond 64 bits.
    assert_eq!(
        said(wrapper(1, 0, 7, &[message(1, 0, 8, None)])),
        "Records: record 0: the offset 7 + -8 overflows"
    );
    assert_eq!(
        said(wrapper(1, 0, 7, &[message(1, 0, i64::MIN, None)])),
        "Records: record 0: the offset 7 + -9223372036854775808 overflows"
    );
    assert_eq!(
        said(wrapper(1, 0, i64::MAX, &[message(1, 0, 9, None), message(1, 0, 0, None)])),
        "Records: record 0: the offset 9223372036854775807 + 0 overflows"
    );
    let mut damaged = one;
    damaged[12..16].fill(0);
    assert_eq!(said(damaged), "Checksum: the checksum is 0x00000000, that of the content 0xfcf1cbbf");
}

#[test]
fn control_records() {
    let control = |batch: &Bytes| {
        let attributes = header(batch).attributes.0 | Attributes::CONTROL;
        patched(batch, ATTRIBUTES, &attributes.to_be_bytes())
    };
    let error = error_of(&control(&batch(Compression::None)));
    assert_eq!((error.stage(), error.record()), (Stage::Control, Some(0)));
    let RecordsReason::Control(reason) = error.reason() else { panic!("{error}") };
    assert_eq!(error.source().map(ToString::to_string), Some(reason.to_string()));
    assert_eq!(error.error_code(), ErrorCode::CORRUPT_MESSAGE);
    assert_eq!(
        error.to_string(),
        "record batch 1 at byte 112 (base offset 0): record 0: control record: ControlRecordTypeSchema: version at byte 0: need 2 bytes, 0 left"
    );
    // A commit without a value, and one with half of it.
    assert_eq!(
        said(control(&record(&[0, 0, 0, 8, 0, 0, 0, 1, 1, 0]))),
        "Control: record 0: control record: EndTxnMarker: the record has no value"
    );
    assert_eq!(
        said(control(&record(&[0, 0, 0, 8, 0, 0, 0, 1, 4, 0, 0, 0]))),
        "Control: record 0: control record: EndTxnMarker v0: coordinator_epoch at byte 0: need 4 bytes, 0 left"
    );
    // Others have no error below them.
    let error = error_of(&with(MAGIC, &[3]).into());
    assert!(error.source().is_none());
}

/// One bad record is passed over, and the others are read.
#[test]
fn reading_goes_on_behind_a_bad_record() {
    let good = batch_of(BatchBuilder::new(), &[0]).slice(RECORDS..);
    let bytes = batch_of_bytes(3, &[&good[..], &[4, 0, 0], &good].concat());
    let batch = only(&bytes);
    let records = batch.records().unwrap();
    let read: Vec<_> = records.iter().map(|record| record.map(|record| record.offset)).collect();
    assert!(matches!(&read[..], [Ok(0), Err(error), Ok(0)] if error.record() == Some(1)), "{read:?}");
    let mut owned = records.owned();
    assert!(matches!(
        owned.by_ref().map(|record| record.is_ok()).collect::<Vec<_>>()[..],
        [true, false, true]
    ));
    assert!(owned.next().is_none());
}
