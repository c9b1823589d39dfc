//! The batches in frames between Kafka's Java clients and a broker.

use std::path::Path;

use kafka_protocol::connection::decode_request_header;
use kafka_protocol::messages::{FetchResponse, ProduceRequest, ResponseHeader, ShareFetchResponse};
use kafka_protocol::protocol::{ApiKey, Message};
use kafka_protocol::records::{BatchBuilder, Batches, Compression, RecordBatch, RecordsField};
use kafka_protocol::wire::Bytes;
use serde_json::Value as Json;

use super::read::see;
use crate::vectors::{texts, unhex};

/// All of the recording has been looked at: this many frames, batches and, among them, compressed ones.
const RECORDED: (usize, usize, usize) = (251, 1857, 16);

#[test]
fn every_recorded_batch_is_read_and_written() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("cases/recorded-records.jsonl.gz");
    let (mut frames, mut batches, mut compressed) = (0, 0, 0);
    for line in texts(&file).expect("frames") {
        let frame: Json = serde_json::from_str(&line).expect("JSON");
        frames += 1;
        for field in fields(&frame) {
            let seen = see(&field).unwrap_or_else(|difference| panic!("{difference}: {frame}"));
            assert_eq!((seen.error, seen.trailing), (None, 0), "{frame}");
            for batch in Batches::new(&field) {
                let batch = batch.expect("a batch");
                batches += 1;
                match batch.header().attributes.compression() {
                    Some(Compression::None) => assert_eq!(written(&batch), batch.bytes(), "{frame}"),
                    _ => {
                        compressed += 1;
                        let again = see(&written(&batch)).expect("one reading");
                        let records = |batch: &Json| batch["records"].clone();
                        let original = see(&batch.to_bytes()).expect("one reading");
                        assert_eq!(again.error, None);
                        assert_eq!(records(&again.batches[0]), records(&original.batches[0]), "{frame}");
                    }
                }
            }
        }
    }
    assert_eq!((frames, batches, compressed), RECORDED);
}

/// The batch, written again from its header and its records.
fn written(batch: &RecordBatch<'_>) -> Bytes {
    let mut builder = BatchBuilder::from_header(batch.header());
    for record in &batch.records().expect("records") {
        builder.append_record(&record.expect("a record")).expect("appended");
    }
    builder.finish().expect("finished")
}

/// The `records` fields of a frame that are not empty.
fn fields(frame: &Json) -> Vec<Bytes> {
    let version = frame["version"].as_i64().expect("a version") as i16;
    let mut body = unhex(&frame["hex"]).expect("hex");
    let api = ApiKey::from_name(frame["api"].as_str().expect("a name")).expect("an API");
    if frame["dir"] == ">" {
        decode_request_header(&mut body).expect("a header");
    } else {
        let header_version = api.api().expect("an API").response_header.of(version);
        ResponseHeader::decode_prefix(&mut body, header_version).expect("a header");
    }
    match frame["api"].as_str() {
        Some("Produce") => {
            let request = ProduceRequest::decode(body, version).expect("a request");
            let topics = request.topic_data.iter();
            collect(topics.flat_map(|topic| &topic.partition_data))
        }
        Some("Fetch") => {
            let response = FetchResponse::decode(body, version).expect("a response");
            collect(response.responses.iter().flat_map(|topic| &topic.partitions))
        }
        _ => {
            let response = ShareFetchResponse::decode(body, version).expect("a response");
            collect(response.responses.iter().flat_map(|topic| &topic.partitions))
        }
    }
}

fn collect<'a, P: RecordsField + 'a>(partitions: impl Iterator<Item = &'a P>) -> Vec<Bytes> {
    let whole = |partition: &P| {
        let batches = partition.batches().map(|batch| batch.expect("a batch").bytes().to_vec());
        Bytes::from(batches.flatten().collect::<Vec<_>>())
    };
    partitions.map(whole).filter(|field| !field.is_empty()).collect()
}
