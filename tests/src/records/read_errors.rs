//! Every reason for which bytes are no records: the place that it names, and its words.

use std::error::Error as _;

use kafka_protocol::protocol::ErrorCode;
use kafka_protocol::records::{
    Attributes, BatchBuilder, Batches, Compression, ReadOptions, RecordsError, RecordsReason, Stage,
};
use kafka_protocol::wire::Bytes;

use super::make::{
    ATTRIBUTES, COUNT, LENGTH, MAGIC, RECORDS, batch, batch_of, batch_of_bytes, gzip, header, message, message_of,
    only, patched, wrapper,
};

const OPTIONS: ReadOptions = ReadOptions { check_crc: true, max_size: 1 << 16, max_ratio: 1000 };

/// The first thing that is wrong, if one looks for records behind a whole batch.
fn error_of(bytes: &Bytes) -> RecordsError {
    let before = batch(Compression::None);
    let bytes = Bytes::from([&before[..], bytes].concat());
    for batch in Batches::new(&bytes) {
        let read = batch.and_then(|batch| {
            let records = batch.records_with(&OPTIONS)?;
            records.to_vec()?;
            if batch.header().is_control() { records.control().try_for_each(|record| record.map(drop)) } else { Ok(()) }
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
    let start = format!("record batch 1 at byte 133 (base offset {}): ", error.base_offset());
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
    insta::assert_snapshot!(said(with(LENGTH, &13_i32.to_be_bytes())), @"");
    insta::assert_snapshot!(said(with(LENGTH, &(-1_i32).to_be_bytes())), @"");
    insta::assert_snapshot!(said(with(LENGTH, &(i32::MAX - 11).to_be_bytes())), @"");
    insta::assert_snapshot!(said(with(MAGIC, &[3])), @"");
    insta::assert_snapshot!(said(with(MAGIC, &[0xff])), @"");
    insta::assert_snapshot!(said(with(LENGTH, &48_i32.to_be_bytes())), @"");
    // The largest length that there can be is that of a batch that is cut.
    let cut = Bytes::from(with(LENGTH, &(i32::MAX - 12).to_be_bytes()));
    let mut batches = Batches::new(&cut);
    assert!(batches.next().is_none());
    assert_eq!(batches.trailing(), cut);
}

#[test]
fn headers() {
    insta::assert_snapshot!(said(with(17, &[0; 4])), @"");
    insta::assert_snapshot!(said(patched(&batch(Compression::None), ATTRIBUTES, &[0, 5])), @"");
    insta::assert_snapshot!(said(patched(&batch(Compression::None), COUNT, &(-1_i32).to_be_bytes())), @"");
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
    insta::assert_snapshot!(said(three(2)), @"");
    insta::assert_snapshot!(said(three(4)), @"");
    insta::assert_snapshot!(said(three(0)), @"");
    insta::assert_snapshot!(said(three(i32::MAX)), @"");
    insta::assert_snapshot!(said(three(i32::MIN)), @"");
}

#[test]
fn records() {
    // Attributes, deltas, key, value, number of headers.
    insta::assert_snapshot!(said(record(&[])), @"");
    insta::assert_snapshot!(said(record(&[0])), @"");
    insta::assert_snapshot!(said(record(&[0, 0])), @"");
    insta::assert_snapshot!(said(record(&[0, 0, 0])), @"");
    insta::assert_snapshot!(said(record(&[0, 0, 0, 1])), @"");
    insta::assert_snapshot!(said(record(&[0, 0, 0, 1, 1])), @"");
    insta::assert_snapshot!(said(record(&[0, 0, 0, 1, 1, 0, 7])), @"");
    insta::assert_snapshot!(said(record(&[0, 0, 0, 3, 1, 0])), @"");
    insta::assert_snapshot!(said(record(&[0, 0, 0, 1, 4, b'v'])), @"");
    insta::assert_snapshot!(said(record(&[&[0][..], &[0x80; 10], &[0, 1, 1, 0]].concat())), @"");
    insta::assert_snapshot!(said(record(&[0, 0, 0x80, 0x80, 0x80, 0x80, 0x10, 1, 1, 0])), @"");
    insta::assert_snapshot!(said(record(&[0, 0, 0, 1, 1, 0x80, 0x80, 0x80, 0x80, 0x80])), @"");
    insta::assert_snapshot!(said(batch_of_bytes(1, &[0x80])), @"");
    insta::assert_snapshot!(said(batch_of_bytes(1, &[1])), @"");
    insta::assert_snapshot!(said(batch_of_bytes(1, &[14, 0, 0, 0])), @"");
}

#[test]
fn headers_of_records() {
    let headers = |bytes: &[u8]| said(record(&[&[0, 0, 0, 1, 1], bytes].concat()));
    insta::assert_snapshot!(headers(&[1]), @"");
    insta::assert_snapshot!(headers(&[2]), @"");
    insta::assert_snapshot!(headers(&[0xfe, 0xff, 0xff, 0xff, 0xf]), @"");
    insta::assert_snapshot!(headers(&[2, 1, 1]), @"");
    insta::assert_snapshot!(headers(&[2, 2, 0xff, 1]), @"");
    insta::assert_snapshot!(headers(&[2, 4, b'k']), @"");
    insta::assert_snapshot!(headers(&[2, 0, 3]), @"");
    insta::assert_snapshot!(headers(&[2, 0, 4, 1]), @"");
}

#[test]
fn offsets_that_overflow() {
    let one = batch_of_bytes(1, &[12, 0, 0, 2, 1, 1, 0]);
    insta::assert_snapshot!(said(patched(&one, 0, &i64::MAX.to_be_bytes())), @"");
    let one = batch_of_bytes(1, &[12, 0, 0, 1, 1, 1, 0]);
    insta::assert_snapshot!(said(patched(&one, 0, &i64::MIN.to_be_bytes())), @"");
}

#[test]
fn old_formats() {
    let [one, other] = [b"one", b"two"].map(|value| message(1, 0, 3, Some(value)));
    let of_magic_0 = |rest: &[u8]| message_of(7, &[&[0, 0], rest].concat());
    insta::assert_snapshot!(said(of_magic_0(&[0xff, 0xff, 0xff, 0xfe, 0, 0, 0, 0])), @"");
    insta::assert_snapshot!(said(of_magic_0(&[0, 0, 0, 9, 0, 0, 0, 0])), @"");
    insta::assert_snapshot!(said(of_magic_0(&[0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 7])), @"");
    insta::assert_snapshot!(said(message(1, 4, 7, Some(b"v"))), @"");
    insta::assert_snapshot!(said(message(1, 1, 7, None)), @"");
    insta::assert_snapshot!(said(message(1, 1, 7, Some(&gzip(b"")))), @"");
    insta::assert_snapshot!(said(message(1, 1, 7, Some(b"no stream"))), @"");
    insta::assert_snapshot!(said(wrapper(1, 0, 7, &[one[..11].to_vec()])), @"");
    insta::assert_snapshot!(said(wrapper(1, 0, 7, &[one.clone(), other[..20].to_vec()])), @"");
    insta::assert_snapshot!(said(wrapper(1, 0, 7, &[one.clone(), message(0, 0, 4, None)])), @"");
    insta::assert_snapshot!(said(wrapper(1, 0, 7, &[message(1, 1, 3, Some(&gzip(&one)))])), @"");
    insta::assert_snapshot!(said(wrapper(1, 0, 7, &[[&one[..8], &13_i32.to_be_bytes()].concat()])), @"");
    let mut damaged = one.clone();
    damaged[12..16].fill(0);
    insta::assert_snapshot!(said(wrapper(1, 0, 7, &[one.clone(), damaged])), @"");
    // The last one would be at 7, so that the first one were below 0; and an offset that cannot be told at all.
    insta::assert_snapshot!(said(wrapper(1, 0, 7, &[message(1, 0, 8, None)])), @"");
    insta::assert_snapshot!(said(wrapper(1, 0, 7, &[message(1, 0, i64::MIN, None)])), @"");
    insta::assert_snapshot!(said(wrapper(1, 0, i64::MAX, &[message(1, 0, 9, None), message(1, 0, 0, None)])), @"");
    let mut damaged = one;
    damaged[12..16].fill(0);
    insta::assert_snapshot!(said(damaged), @"");
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
    insta::assert_snapshot!(error, @"");
    // A commit without a value, and one with half of it.
    insta::assert_snapshot!(said(control(&record(&[0, 0, 0, 8, 0, 0, 0, 1, 1, 0]))), @"");
    insta::assert_snapshot!(said(control(&record(&[0, 0, 0, 8, 0, 0, 0, 1, 4, 0, 0, 0]))), @"");
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
    assert!(matches!(owned.by_ref().map(|record| record.is_ok()).collect::<Vec<_>>()[..], [true, false, true]));
    assert!(owned.next().is_none());
}
