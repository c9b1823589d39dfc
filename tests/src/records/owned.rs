//! Whose memory records are in.

use kafka_protocol::records::{BatchBuilder, Batches, Compression, OwnedRecord};

use super::make::{batch, batch_of, message, wrapper};

fn is_in(record: &OwnedRecord, memory: &[u8]) -> bool {
    memory.as_ptr_range().contains(&record.value().expect("a value").as_ptr())
}

/// Uncompressed records share the input if that is a `Bytes`, all others what has been made of it; and they stay when it
/// is gone.
#[test]
fn records_outlive_their_input() {
    let plain = [batch(Compression::None), message(1, 0, 3, Some(b"value")).into()];
    let compressed = [batch(Compression::Gzip), wrapper(1, 0, 3, &[message(1, 0, 0, Some(b"value"))])];
    for (bytes, is_shared) in
        plain.into_iter().map(|bytes| (bytes, true)).chain(compressed.map(|bytes| (bytes, false)))
    {
        let whole = |mut batches: Batches<'_>| {
            let batch = batches.next().expect("a batch").expect("a header");
            batch.records().expect("records").to_vec().expect("records")
        };
        let (shared, copied) = (whole(Batches::new(&bytes)), whole(Batches::from_slice(&bytes)));
        assert_eq!(shared, copied);
        assert!(shared.iter().all(|record| is_in(record, &bytes) == is_shared), "{shared:?}");
        assert!(copied.iter().all(|record| !is_in(record, &bytes)), "{copied:?}");
        // All of a batch are in one piece of memory.
        let value = shared[0].value_bytes().expect("a value");
        assert_eq!(
            (value.as_ptr(), value.len()),
            (shared[0].value().expect("a value").as_ptr(), value.len())
        );
        drop(bytes);
        assert!(
            shared
                .iter()
                .chain(&copied)
                .all(|record| record.value().is_some_and(|value| value.starts_with(b"value")))
        );
    }
}

#[test]
fn a_batch_is_shared_or_copied() {
    let bytes = batch_of(BatchBuilder::new().compression(Compression::Lz4), &[0, 1]);
    let shared = Batches::new(&bytes).next().expect("a batch").expect("a header").to_bytes();
    let copied = Batches::from_slice(&bytes).next().expect("a batch").expect("a header").to_bytes();
    assert_eq!((&shared, &copied), (&bytes, &bytes));
    assert_eq!(shared.as_ptr(), bytes.as_ptr());
    assert_ne!(copied.as_ptr(), bytes.as_ptr());
}
