//! Bytes of a peer that means no good: cut, changed, and claiming more than there is.
//!
//! In debug builds the runtime asserts that whatever a codec stumbles over is also found by the walk that explains
//! it, so each of the many refusals here compares the generated decoder with the schema.

use allocation_counter::{AllocationInfo, measure};
use kafka_protocol::messages::*;
use kafka_protocol::protocol::schema::{FieldType, StructSchema};
use kafka_protocol::protocol::{DecodeError, DecodeReason, Message, frame};
use kafka_protocol::wire::{Bytes, BytesMut, Writer};

use crate::fixture::{Case, Verdict, cases, cases_of};

// ---- Cut ----

#[test]
fn every_truncation_is_an_unexpected_end_of_some_field() {
    fn check<M: Message>() {
        for case in cases_of::<M>(Verdict::Valid) {
            // The message's own tag section is the last thing in it: what is cut in there is no field of its own.
            let mut section = None;
            for n in 0..case.bytes.len() {
                let error = refusal::<M>(&case, &case.bytes[..n]);
                let context = format!("{case}, {n} bytes: {error}");
                let left = match *error.reason() {
                    DecodeReason::UnexpectedEnd { needed, left } => {
                        assert!(needed > left, "{context}");
                        left
                    }
                    DecodeReason::CountExceedsInput { count, min_size, left } => {
                        assert!(count * min_size > left, "{context}");
                        left
                    }
                    _ => panic!("{context}"),
                };
                assert!(error.offset() + left <= n, "{context}");
                if error.path() == "unknown_tagged_fields" {
                    section.get_or_insert(n);
                } else if section.is_some() {
                    let root = error.path().split(['.', '[']).next();
                    let field = M::SCHEMA.root.fields.iter().find(|field| Some(field.rust_name) == root);
                    assert!(field.is_some_and(|field| field.tag.is_some()), "{context}");
                }
            }
            assert_eq!(section.is_some(), M::FLEXIBLE_VERSIONS.contains(case.version), "{case}");
        }
    }
    every_message!(check);
}

/// The error of bytes that are not a message, which does not depend on how they are decoded.
fn refusal<M: Message>(case: &Case, bytes: &[u8]) -> DecodeError {
    let Err(error) = M::decode_slice(bytes, case.version) else { panic!("{case}: {bytes:02x?} are read") };
    assert_eq!((error.message(), error.version()), (M::SCHEMA.name, case.version), "{case}");
    assert!(error.offset() <= bytes.len(), "{case}: {error}");
    error
}

// ---- Changed ----

#[test]
fn every_changed_byte_is_refused_or_read_as_what_it_says() {
    fn check<M: Message>() {
        let mut refused = 0;
        for case in cases_of::<M>(Verdict::Valid) {
            if case.kind != "default" && case.kind != "full" && !case.kind.starts_with("random") {
                continue;
            }
            for at in 0..case.bytes.len() {
                let byte = case.bytes[at];
                for other in [byte ^ 0xff, 0, 0xff, byte.wrapping_add(1), 0x7f, 0x80] {
                    let mut changed = case.bytes.to_vec();
                    changed[at] = other;
                    refused += usize::from(!check_changed::<M>(&case, changed.into(), at));
                }
            }
        }
        // Four bytes of a correlation id can be anything.
        assert!(refused > 0 || M::SCHEMA.name == "ResponseHeader");
    }
    every_message!(check);
}

/// Whether the bytes are still a message.
fn check_changed<M: Message>(case: &Case, changed: Bytes, at: usize) -> bool {
    let context = || format!("{case}, byte {at} is {:#04x}", changed[at]);
    let decoded = M::decode(changed.clone(), case.version);
    assert_eq!(decoded, M::decode_slice(&changed, case.version), "{}", context());
    let Ok(value) = decoded else { return false };

    let encoded = value.encode(case.version).unwrap_or_else(|error| panic!("{}: {error}", context()));
    if encoded != changed {
        let again = M::decode(encoded.clone(), case.version).expect("what we write we read");
        assert_eq!(again, value, "{}", context());
        // Two things are read in more than one form: true, and a tagged field that has its default.
        let mut bool_as_1 = changed.to_vec();
        bool_as_1[at] = 1;
        let left_out = M::SCHEMA.root.known_tags > 0 && encoded.len() < changed.len();
        assert!(encoded == bool_as_1 && case.bytes[at] <= 1 || left_out, "{}", context());
    }
    true
}

// ---- Claiming ----

/// The bytes of a message, piece by piece.
#[derive(Clone, Default)]
struct Forged(Vec<u8>);

impl Forged {
    /// A ShareFetchRequest of version 1, up to the count of its topics.
    fn share_fetch_request() -> Self {
        Self::default().bytes(b"\x02g\x02m").bytes([0; 24])
    }

    fn bytes(mut self, bytes: impl AsRef<[u8]>) -> Self {
        self.0.extend_from_slice(bytes.as_ref());
        self
    }

    fn varint(mut self, value: u32) -> Self {
        Writer::new(&mut self.0, 0, true).varint(value);
        self
    }

    /// The count of a compact array.
    fn count(self, count: u32) -> Self {
        self.varint(count + 1)
    }

    /// A tag section with `count` tags without a value.
    fn empty_tags(self, count: u32) -> Self {
        (0..count).fold(self.varint(count), |forged, tag| forged.varint(tag).bytes([0]))
    }
}

/// What a message may take that is too small for its multiple to matter.
const SMALL: usize = 4096;

/// Decodes in every way, and checks the memory that it takes at any time.
#[track_caller]
fn cheaply<M: Message>(bytes: &[u8], version: i16) -> Result<M, DecodeError> {
    #[track_caller]
    fn check<T>(length: usize, decode: impl FnOnce() -> T) -> T {
        let mut done = None;
        let AllocationInfo { bytes_max, .. } = measure(|| done = Some(decode()));
        // Fourteen times for arrays and what is small, two for the rest.
        let limit = if length >= SMALL / 2 { 16 * length } else { 16 * length + SMALL };
        assert!(bytes_max as usize <= limit, "{length} bytes take {bytes_max}");
        done.expect("decoded")
    }
    let shared = Bytes::copy_from_slice(bytes);
    let decoded = check(bytes.len(), || M::decode(shared.clone(), version));
    let copied = check(bytes.len(), || M::decode_slice(bytes, version));
    assert_eq!(decoded, copied);
    let mut again = M::default();
    let _ = again.decode_from(&shared, version);
    let over = check(bytes.len(), || again.decode_from(&shared, version));
    // A value that has the room already may get further.
    let too_much = |error: &DecodeError| *error.reason() == DecodeReason::TooMuchMemory;
    assert!(over.as_ref().err() == decoded.as_ref().err() || decoded.as_ref().is_err_and(too_much));
    decoded
}

#[track_caller]
fn refused<M: Message>(forged: Forged, version: i16, path: &str) -> DecodeReason {
    let error = cheaply::<M>(&forged.0, version).expect_err("claims too much");
    assert_eq!(error.path(), path, "{error}");
    error.reason().clone()
}

#[test]
fn decoding_takes_little_memory_whatever_the_bytes() {
    fn check<M: Message>() {
        for case in cases::<M>() {
            let decoded = cheaply::<M>(&case.bytes, case.version);
            assert!(decoded.is_ok() || case.verdict() != Verdict::Valid, "{case}");
        }
    }
    every_message!(check);
}

/// Puts the count of 2147483647, and the largest there is, in the place of every array of structs and of numbers.
#[test]
fn counts_of_billions_are_refused_before_memory_is_taken() {
    let many: u32 = i32::MAX as u32;
    let request = Forged::share_fetch_request;
    let topic = || request().count(1).bytes([1; 16]);
    let partition = || topic().count(1).bytes([0; 4]);
    let batch = || partition().count(1).bytes([0; 16]);
    let forgotten = || request().count(0);
    let arrays = [
        (request(), "topics", 18),
        (topic(), "topics[0].partitions", 6),
        (partition(), "topics[0].partitions[0].acknowledgement_batches", 18),
        (batch(), "topics[0].partitions[0].acknowledgement_batches[0].acknowledge_types", 1),
        (forgotten(), "forgotten_topics_data", 18),
        (forgotten().count(1).bytes([1; 16]), "forgotten_topics_data[0].partitions", 4),
    ];
    for (before, path, min_size) in arrays {
        for count in [many, u32::MAX - 1, 41] {
            // Zeros are good for anything that may follow.
            let left = if count == 41 { min_size * 41 - 1 } else { 40 };
            let forged = before.clone().count(count).bytes(vec![0; left]);
            let reason = refused::<ShareFetchRequest>(forged, 1, path);
            assert_eq!(reason, DecodeReason::CountExceedsInput { count: count as usize, min_size, left });
        }
    }

    let response = |count: i32| Forged::default().bytes([0; 2]).bytes(count.to_be_bytes()).bytes([0; 40]);
    for version in 0..=2 {
        let reason = refused::<ApiVersionsResponse>(response(i32::MAX), version, "api_keys");
        let count = i32::MAX as usize;
        assert_eq!(reason, DecodeReason::CountExceedsInput { count, min_size: 6, left: 40 });
        let reason = refused::<ApiVersionsResponse>(response(i32::MIN), version, "api_keys");
        assert_eq!(reason, DecodeReason::NegativeLength { length: i32::MIN });
    }
}

/// A megabyte that says at every level that as much of it as possible is elements of this level.
#[test]
fn claims_inside_claims_take_no_more_than_their_bytes_could() {
    let forged = Forged::share_fetch_request()
        .count(55_000)
        .bytes([1; 16])
        .count(166_000)
        .bytes([1; 4])
        .count(55_000)
        .bytes([1; 16])
        .count(990_000)
        .bytes(vec![1; 999_000]);
    let error = cheaply::<ShareFetchRequest>(&forged.0, 1).expect_err("claims too much");
    let all_three_levels = "topics[0].partitions[0].acknowledgement_batches[";
    assert!(error.path().starts_with(all_three_levels), "{error}");
    assert!(matches!(error.reason(), DecodeReason::UnexpectedEnd { .. }), "{error}");
}

/// The same for every message: from one of its arrays on, every array down to the innermost claims as many elements
/// as the rest of the bytes could hold.
#[test]
fn claims_of_every_array_take_little_memory() {
    fn check<M: Message>() {
        for version in M::VERSIONS.iter() {
            let flexible = M::FLEXIBLE_VERSIONS.contains(version);
            for skipped in 0.. {
                let mut claims =
                    Claims { bytes: Vec::new(), version, flexible, skip: skipped, length: 20_000 };
                if !claims.structure(M::SCHEMA.root) {
                    break;
                }
                let claimed = claims.bytes.len();
                for rest in [0, 1, 2] {
                    claims.bytes.truncate(claimed);
                    claims.bytes.resize(claims.length, rest);
                    let _ = cheaply::<M>(&claims.bytes, version);
                }
            }
        }
    }
    every_message!(check);
}

/// Writes the smallest values up to an array.
struct Claims {
    bytes: Vec<u8>,
    version: i16,
    flexible: bool,
    /// How many arrays are left empty before one claims.
    skip: usize,
    /// How many bytes there will be.
    length: usize,
}

impl Claims {
    /// Whether it ended in an array that claims.
    fn structure(&mut self, schema: &'static StructSchema) -> bool {
        let version = self.version;
        for field in schema.fields {
            if field.versions.contains(version) && !field.tagged_versions.contains(version) {
                let flexible = self.flexible;
                self.flexible =
                    field.flexible_versions.map_or(flexible, |versions| versions.contains(version));
                if self.value(field.ty, field.nullable_versions.contains(version)) {
                    return true;
                }
                self.flexible = flexible;
            }
        }
        if self.flexible {
            self.bytes.push(0);
        }
        false
    }

    fn value(&mut self, ty: FieldType, nullable: bool) -> bool {
        if let Some(size) = ty.fixed_size() {
            self.bytes.extend(vec![0; size]);
            return false;
        }
        match ty {
            FieldType::Array(_) if self.skip > 0 => {
                self.skip -= 1;
                self.length_of(0, 4);
                false
            }
            FieldType::Array(element) => {
                let left = self.length - self.bytes.len() - 5;
                self.length_of(left / element.min_size(), 4);
                self.value(*element, false);
                true
            }
            FieldType::Struct(schema) => {
                self.bytes.extend(nullable.then_some(1));
                self.structure(schema)
            }
            FieldType::String => self.length_of(0, 2),
            _ => self.length_of(0, 4),
        }
    }

    fn length_of(&mut self, n: usize, width: usize) -> bool {
        if self.flexible {
            Writer::new(&mut self.bytes, 0, true).varint(n as u32 + 1);
        } else {
            self.bytes.extend(&(n as u32).to_be_bytes()[4 - width..]);
        }
        false
    }
}

/// Elements as small as they can be are the most memory per byte that a good message can need.
#[test]
fn arrays_of_the_smallest_elements_are_read() {
    let zeros = |forged: Forged, bytes| forged.bytes(vec![0; bytes]);
    let topics = zeros(Forged::share_fetch_request().count(20_000), 20_000 * 18 + 2);
    let error = cheaply::<ShareFetchRequest>(&topics.0, 1).expect_err("0 is null where an array is due");
    assert_eq!((error.path(), error.reason()), ("topics[0].partitions", &DecodeReason::Null));

    let mut forged = Forged::share_fetch_request().count(20_000);
    for _ in 0..20_000 {
        forged = forged.bytes([0; 16]).count(0).bytes([0]);
    }
    let request = cheaply::<ShareFetchRequest>(&forged.count(0).bytes([0]).0, 1).expect("a message");
    assert_eq!(request.topics.len(), 20_000);

    let mut forged = Forged::default().bytes([0; 2]).count(20_000);
    forged = zeros(forged, 20_000 * 7 + 4).varint(2);
    // Two tagged arrays, of names without characters.
    for tag in [0, 2] {
        let features = Forged::default().count(20_000);
        let mut features = features.0;
        for _ in 0..20_000 {
            features.extend([1, 0, 0, 0, 0, 0]);
        }
        forged = forged.varint(tag).varint(features.len() as u32).bytes(features);
    }
    let response = cheaply::<ApiVersionsResponse>(&forged.0, 4).expect("a message");
    assert_eq!((response.supported_features.len(), response.finalized_features.len()), (20_000, 20_000));
}

#[test]
fn tag_sections_cost_what_they_weigh() {
    let request = || Forged::share_fetch_request().count(0).count(0);

    let all = cheaply::<ShareFetchRequest>(&request().empty_tags(300_000).0, 1).expect("a message");
    assert_eq!(all.unknown_tagged_fields.len(), 300_000);
    assert!(all.unknown_tagged_fields.iter().map(|field| field.0).eq(0..300_000));

    let section = request().0.len();
    for count in [1_001, 100_000_000, u32::MAX] {
        let mut forged = request().empty_tags(1_000).0;
        forged.splice(section..section + 2, Forged::default().varint(count).0);
        let reason = refused::<ShareFetchRequest>(Forged(forged), 1, "unknown_tagged_fields");
        assert_eq!(reason, DecodeReason::UnexpectedEnd { needed: 1, left: 0 });
    }

    // One tag in each of many small structs.
    let mut forged = Forged::share_fetch_request().count(1).bytes([1; 16]).count(50_000);
    for _ in 0..50_000 {
        forged = forged.bytes([0; 4]).count(0).bytes([1, 0, 0]);
    }
    let forged = forged.bytes([0]).count(0).bytes([0]);
    let request = cheaply::<ShareFetchRequest>(&forged.0, 1).expect("a message");
    let partitions = &request.topics[0].partitions;
    assert!(partitions.iter().all(|partition| partition.unknown_tagged_fields.len() == 1));
    assert_eq!(request.encode(1), Ok(forged.0.into()));
}

#[test]
fn a_tag_that_does_not_ascend_is_refused_behind_known_ones_too() {
    let response = |tags: &[u8]| Forged::default().bytes([0; 2]).count(0).bytes([0; 4]).bytes(tags);
    let read = |tags: &[u8]| cheaply::<ApiVersionsResponse>(&response(tags).0, 3);

    // Tag 3 is a bool, tags from 4 on are unknown.
    assert_eq!(read(&[3, 3, 1, 1, 4, 0, 9, 0]).expect("ascending").unknown_tagged_fields.len(), 2);
    assert!(read(&[2, 0, 1, 1, 3, 1, 1]).expect("ascending").zk_migration_ready);
    for (tags, tag, after) in [
        (&[2, 3, 1, 1, 3, 1, 1][..], 3, 3),
        (&[2, 3, 1, 1, 0, 1, 1], 0, 3),
        (&[2, 4, 0, 3, 1, 1], 3, 4),
        (&[3, 3, 1, 1, 9, 0, 9, 0], 9, 9),
        (&[3, 3, 1, 1, 9, 0, 4, 0], 4, 9),
    ] {
        let error = read(tags).expect_err("not ascending");
        assert_eq!(error.reason(), &DecodeReason::TagOrder { tag, after }, "{tags:?}");
    }
}

// ---- What costs nothing ----

#[test]
fn encoding_into_a_buffer_with_room_allocates_nothing() {
    fn check<M: Message>() {
        for case in cases_of::<M>(Verdict::Valid) {
            let value: M = case.value();
            let mut vec = Vec::with_capacity(case.bytes.len());
            let mut bytes = BytesMut::with_capacity(case.bytes.len());
            let info = measure(|| {
                assert!(value.encoded_len(case.version).is_ok());
                assert!(value.encode_into(&mut vec, case.version).is_ok());
                assert!(value.encode_into(&mut bytes, case.version).is_ok());
            });
            assert_eq!(info.count_total, 0, "{case}");
            assert!(vec == case.bytes && bytes == case.bytes, "{case}");
        }
    }
    every_message!(check);
}

#[test]
fn a_frame_costs_no_memory_but_its_own() {
    let header = frame::request_header::<ShareFetchRequest>(2, 1, "a client that has quite a long name");
    let fullest = cases_of::<ShareFetchRequest>(Verdict::Valid)
        .into_iter()
        .filter(|case| case.version == 2)
        .max_by_key(|case| case.bytes.len())
        .expect("a case");
    let request: ShareFetchRequest = fullest.value();
    let mut buffer = Vec::with_capacity(64 * 1024);
    let info = measure(|| assert_eq!(frame::encode_request(&mut buffer, &header, &request), Ok(())));
    assert_eq!(info.count_total, 0);

    // A peer that announces as much as it may, and sends nothing, gets a buffer and no more.
    let announced = 64 * 1024;
    let mut buffer = BytesMut::from(&(announced as i32).to_be_bytes()[..]);
    let info = measure(|| assert_eq!(frame::split(&mut buffer, announced), Ok(None)));
    assert!(info.bytes_max as usize <= 2 * announced, "{info:?}");
    let mut buffer = BytesMut::from(&i32::MAX.to_be_bytes()[..]);
    let info = measure(|| assert!(frame::split(&mut buffer, announced).is_err()));
    assert_eq!(info.count_total, 0);
}

#[test]
fn decoding_over_a_warm_value_allocates_nothing() {
    fn check<M: Message>() {
        for case in cases_of::<M>(Verdict::Valid) {
            // Unknown tags are rare; a struct that has some takes a box for them.
            if case.kind.starts_with("unknown-tags") {
                continue;
            }
            let mut value: M = case.value();
            value.decode_from(&case.bytes, case.version).expect("a message");
            let info = measure(|| assert!(value.decode_from(&case.bytes, case.version).is_ok()));
            assert_eq!(info.count_total, 0, "{case}");
        }
    }
    every_message!(check);
}

/// As a server does: one value, one request after the other. What is in them may change, and the version too.
#[test]
fn a_loop_over_requests_of_one_shape_allocates_nothing_once_warm() {
    let mut cases = cases_of::<ShareFetchRequest>(Verdict::Valid);
    cases.retain(|case| case.kind == "full");
    assert_eq!(cases.len(), 2);
    let mut value: ShareFetchRequest = cases[0].value();
    let mut values = 0;
    let info = measure(|| {
        for _ in 0..3 {
            for case in &cases {
                assert!(value.decode_from(&case.bytes, case.version).is_ok());
                values += value.topics.len();
            }
        }
    });
    assert_eq!((info.count_total, values), (0, 12));
}
