//! Random values and damaged bytes, for every message in every version: the generated codecs and the interpreter are two
//! implementations of one protocol, and must agree.
//!
//! The cases are the same in every run: message, version and number of a case are its seed. A failure tells them, and the
//! bytes, which are all that it takes to repeat it; so there is nothing that a shrinker would add, and no such
//! dependency.

use std::collections::HashSet;
use std::mem::{self, Discriminant};
use std::thread;

use kafka_protocol::dynamic::{self, Struct, Value};
use kafka_protocol::messages::{ShareFetchResponse, visit_messages};
use kafka_protocol::protocol::schema::{FieldSchema, FieldType, MessageSchema, StructSchema};
use kafka_protocol::protocol::{DecodeError, DecodeReason, Message, MessageVisitor};
use kafka_protocol::wire::{Bytes, Str, Uuid};
use kafka_protocol::{inspect, json};

use crate::random::Random;

/// Values per version of a message.
const VALUES: u64 = 6;

/// Damaged forms of each of them.
const DAMAGES: u64 = 8;

// ---- Values ----

/// Makes values that a version can carry.
struct Maker<'r> {
    random: &'r mut Random,
    version: i16,
    flexible: bool,
    /// Without what JSON does not show: contents of records and unknown tags.
    json: bool,
    /// How many more values there should be.
    budget: usize,
}

impl Maker<'_> {
    fn message(&mut self, schema: &'static MessageSchema) -> Struct {
        self.structure(schema.root)
    }

    fn structure(&mut self, schema: &'static StructSchema) -> Struct {
        let mut value = Struct::new(schema);
        for field in schema.fields {
            // Tagged fields are rare, and often have their default.
            let tagged = field.tagged_versions.contains(self.version);
            if field.versions.contains(self.version) && !(tagged && self.random.once_in(2)) {
                let made = self.field(field);
                value.set(field.name, made).unwrap_or_else(|error| panic!("{}: {error}", schema.name));
            }
        }
        if self.flexible && !self.json && self.random.once_in(6) {
            let mut tag = schema.known_tags;
            for _ in 0..=self.random.below(3) {
                tag += self.random.pick(&[0, 1, 126, 127, 128, 16_383, 1 << 28]);
                let n = self.random.pick(&[0, 1, 5, 127, 128]);
                let bytes = self.random.bytes(n);
                value.unknown_tagged_fields.push(tag, bytes).expect("tags that ascend");
                tag += 1;
            }
        }
        value
    }

    fn field(&mut self, field: &'static FieldSchema) -> Value {
        if field.nullable_versions.contains(self.version) && self.random.once_in(4) {
            return Value::Null;
        }
        self.value(field.ty)
    }

    fn value(&mut self, ty: FieldType) -> Value {
        self.budget = self.budget.saturating_sub(1);
        let random = &mut *self.random;
        match ty {
            FieldType::Bool => random.once_in(2).into(),
            FieldType::Int8 => random.pick(&[0, 1, -1, i8::MIN, i8::MAX]).into(),
            FieldType::Int16 => match random.below(4) {
                0 => (random.next() as i16).into(),
                _ => random.pick(&[0, 1, -1, 127, 128, i16::MIN, i16::MAX]).into(),
            },
            FieldType::Uint16 => random.pick(&[0, 1, 0x7fff, 0x8000, u16::MAX]).into(),
            FieldType::Int32 => match random.below(4) {
                0 => (random.next() as i32).into(),
                _ => random.pick(&[0, 1, -1, 127, 128, i32::MIN, i32::MAX]).into(),
            },
            FieldType::Uint32 => random.pick(&[0, 1, 0x7fff_ffff, 0x8000_0000, u32::MAX]).into(),
            FieldType::Int64 => match random.below(4) {
                0 => (random.next() as i64).into(),
                _ => random.pick(&[0, 1, -1, 1 << 31, 1 << 53, i64::MIN, i64::MAX]).into(),
            },
            FieldType::Float64 => match random.below(3) {
                0 => f64::from_bits(random.next()).into(),
                _ => random
                    .pick(&[0.0, -0.0, 1.5, f64::MIN_POSITIVE, f64::MAX, f64::INFINITY, f64::NAN])
                    .into(),
            },
            FieldType::Uuid => match random.below(3) {
                0 => Uuid::nil().into(),
                1 => Uuid::max().into(),
                _ => Uuid::from_u128(u128::from(random.next()) << 64 | u128::from(random.next())).into(),
            },
            FieldType::String => self.text().into(),
            FieldType::Records if self.json => Bytes::new().into(),
            FieldType::Bytes | FieldType::Records => {
                let n = self.length();
                Bytes::from(self.random.bytes(n)).into()
            }
            FieldType::Struct(schema) => self.structure(schema).into(),
            FieldType::Array(element) => {
                let n = match (element.fixed_size(), self.budget) {
                    (_, 0) => self.random.pick(&[0, 0, 1]),
                    // Inline for 16 bytes, then on the heap; and lengths of one and of two bytes.
                    (Some(_), _) => self.random.pick(&[0, 1, 2, 4, 5, 16, 17, 126, 127, 128]),
                    (None, _) if self.random.once_in(40) && element.min_size() <= 4 => {
                        self.random.pick(&[126, 127, 128])
                    }
                    (None, _) => self.random.below(4),
                };
                Value::Array((0..n).map(|_| self.value(*element)).collect())
            }
        }
    }

    /// Lengths at which the form changes: inline and on the heap, one byte and two, and three where nothing is near.
    fn length(&mut self) -> usize {
        match self.random.below(64) {
            0 => self.random.pick(&[16_382, 16_383, 16_384]),
            1..8 => self.random.pick(&[126, 127, 128]),
            _ => self.random.pick(&[0, 1, 2, 23, 24, 25]),
        }
    }

    fn text(&mut self) -> Str {
        let n = match self.random.below(400) {
            0 => 32_767,
            _ => self.length(),
        };
        let alphabets: [&[char]; 3] =
            [&['a', 'b', '-', '0'], &['ä', 'ß', 'a', '\0', '"'], &['\u{10ffff}', '😀', '€', 'é', '\n', 'z']];
        let alphabet = self.random.pick(&alphabets);
        let mut text = String::with_capacity(n);
        while text.len() < n {
            let c = self.random.pick(alphabet);
            // The last ones may not fit.
            text.push(if text.len() + c.len_utf8() <= n { c } else { 'x' });
        }
        text.as_str().into()
    }
}

fn make(schema: &'static MessageSchema, version: i16, random: &mut Random, json: bool) -> Struct {
    let flexible = schema.flexible_versions.contains(version);
    Maker { random, version, flexible, json, budget: 150 }.message(schema)
}

/// A value whose floats are numbers is equal to itself.
fn has_nan(value: &Value) -> bool {
    match value {
        Value::Float(float) => float.is_nan(),
        Value::Array(elements) => elements.iter().any(has_nan),
        Value::Struct(value) => value.iter().any(|(_, value)| has_nan(value)),
        _ => false,
    }
}

// ---- Every message ----

/// Runs a check for every message in every version.
struct Every<C>(C);

trait Check {
    fn check<M: Message>(&mut self, version: i16, case: u64, random: &mut Random);
}

impl<C: Check> MessageVisitor for Every<C> {
    fn visit<M: Message>(&mut self) {
        for version in M::VERSIONS.iter() {
            for case in 0..VALUES {
                let _seed = Seed { message: M::SCHEMA.name, version, case };
                let mut random = Random::new(M::SCHEMA.name, version, case);
                self.0.check::<M>(version, case, &mut random);
            }
        }
    }
}

/// Tells which case failed.
struct Seed {
    message: &'static str,
    version: i16,
    case: u64,
}

impl Drop for Seed {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("in case {} of {} v{}", self.case, self.message, self.version);
        }
    }
}

fn context<M: Message>(version: i16, bytes: &[u8]) -> String {
    let mut hex: String = bytes.iter().take(2000).map(|byte| format!("{byte:02x}")).collect();
    if bytes.len() > 2000 {
        hex.push_str("...");
    }
    format!("{} v{version}, {} bytes {hex}", M::SCHEMA.name, bytes.len())
}

/// Equal, or not the same as itself either.
fn same<T: PartialEq>(a: &T, b: &T, nan: bool) -> bool {
    nan || a == b
}

// ---- Round trips ----

#[test]
fn random_values_survive_every_codec() {
    struct RoundTrip(usize);

    impl Check for RoundTrip {
        fn check<M: Message>(&mut self, version: i16, _: u64, random: &mut Random) {
            let value = make(M::SCHEMA, version, random, false);
            let bytes = dynamic::encode(&value, M::SCHEMA, version)
                .unwrap_or_else(|error| panic!("{error}\n{value:#?}"));
            let bytes = Bytes::from(bytes);
            let context = || context::<M>(version, &bytes);
            let nan = has_nan(&Value::Struct(value.clone()));

            let again = dynamic::decode_within(M::SCHEMA, &bytes, version, usize::MAX);
            assert!(again.as_ref().is_ok_and(|again| same(again, &value, nan)), "{again:#?}\n{}", context());

            let decoded =
                M::decode(bytes.clone(), version).unwrap_or_else(|it| panic!("{it}\n{}", context()));
            assert_eq!(decoded.encode(version).as_ref(), Ok(&bytes), "{}", context());
            assert_eq!(decoded.encoded_len(version), Ok(bytes.len()), "{}", context());
            let mut appended = b"before".to_vec();
            assert_eq!(decoded.encode_into(&mut appended, version), Ok(()), "{}", context());
            assert_eq!(appended[6..], bytes, "{}", context());

            let copied = M::decode_slice(&bytes, version).expect("as before");
            assert!(same(&copied, &decoded, nan), "{}", context());
            assert_eq!(copied.encode(version).as_ref(), Ok(&bytes), "{}", context());

            // Over a value that has something else in every place, and more or less of it.
            let other = make(M::SCHEMA, version, random, false);
            let other = Bytes::from(dynamic::encode(&other, M::SCHEMA, version).expect("as before"));
            let mut used = M::decode(other, version).expect("as before");
            assert_eq!(used.decode_from(&bytes, version), Ok(()), "{}", context());
            assert!(same(&used, &decoded, nan), "{}", context());
            assert_eq!(used.encode(version).as_ref(), Ok(&bytes), "{}", context());

            let mut more = Bytes::from([&bytes[..], b"behind"].concat());
            let prefix = M::decode_prefix(&mut more, version).expect("as before");
            assert!(same(&prefix, &decoded, nan) && more == "behind", "{}", context());
            self.0 += 1;
        }
    }

    let mut every = Every(RoundTrip(0));
    visit_messages(&mut every);
    assert!(every.0.0 > 700 * VALUES as usize, "{} values", every.0.0);
}

#[test]
fn random_values_survive_json() {
    struct Json;

    impl Check for Json {
        fn check<M: Message>(&mut self, version: i16, case: u64, random: &mut Random) {
            // A third of the cases is enough.
            if !case.is_multiple_of(3) {
                return;
            }
            let value = make(M::SCHEMA, version, random, true);
            let nan = has_nan(&Value::Struct(value.clone()));
            let bytes = Bytes::from(dynamic::encode(&value, M::SCHEMA, version).expect("bytes"));
            let context = || context::<M>(version, &bytes);

            let json = json::to_value(&value, M::SCHEMA, version).expect("JSON");
            let generated = M::decode(bytes.clone(), version).expect("a value");
            assert_eq!(json::encode(&generated, version).as_ref(), Ok(&json), "{}", context());

            // Through text, as a file would have it.
            let text = serde_json::to_string(&json).expect("text");
            let read = serde_json::from_str(&text).expect("JSON");
            assert_eq!(read, json, "{}", context());
            // Null records are no records there.
            if has_null_records(&Value::Struct(value.clone())) {
                return;
            }
            let again =
                json::from_value(&read, M::SCHEMA, version).unwrap_or_else(|e| panic!("{e}\n{}", context()));
            assert!(same(&again, &value, nan), "{}", context());
            let again = json::decode::<M>(&read, version).unwrap_or_else(|e| panic!("{e}\n{}", context()));
            assert!(same(&again, &generated, nan), "{}", context());
            // Which NaN it is gets lost.
            if !nan {
                assert_eq!(again.encode(version).as_ref(), Ok(&bytes), "{}", context());
            }
        }
    }

    visit_messages(&mut Every(Json));
}

/// Of records that no version allows to be null, JSON has no null.
fn has_null_records(value: &Value) -> bool {
    match value {
        Value::Array(elements) => elements.iter().any(has_null_records),
        Value::Struct(value) => value.iter().any(|(field, value)| match field.ty {
            FieldType::Records => value.is_null() && field.nullable_versions.is_empty(),
            _ => has_null_records(value),
        }),
        _ => false,
    }
}

// ---- Damage ----

/// Changes bytes in one place, or cuts them there.
pub(crate) fn damage(bytes: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let at = random.below(bytes.len().max(1));
    // Most of the structure is near the start if there are long values.
    let at = if random.once_in(2) { at.min(random.below(100)) } else { at };
    let lengths: [&[u8]; 9] = [
        &[0],
        &[0xff],
        &[0x80, 0],
        &[0xff, 0xff, 0xff, 0xff, 0x0f],
        &[0xff, 0xff, 0xff, 0xff, 0x1f],
        &[0x80, 0x80, 0x80, 0x80, 0x80, 1],
        &[0xff, 0xff],
        &[0x7f, 0xff, 0xff, 0xff],
        &[0x80, 0, 0, 0],
    ];
    match random.below(8) {
        _ if bytes.is_empty() => bytes.push(random.next() as u8),
        0 | 1 => bytes[at] ^= 1 << random.below(8),
        2 => bytes.truncate(at),
        3 => bytes.insert(at, random.next() as u8),
        4 => drop(bytes.remove(at)),
        5 => bytes[at] = random.pick(&[0, 1, 0x7f, 0x80, 0xff]),
        6 => {
            let length = random.pick(&lengths);
            let end = (at + length.len()).min(bytes.len());
            bytes.splice(at..end, length.iter().copied());
        }
        _ => {
            let length = random.pick(&lengths);
            bytes.splice(at..at + 1, length.iter().copied());
        }
    }
    bytes
}

/// How often bytes were refused and read, and what they were refused for.
#[derive(Default)]
struct Verdicts {
    refused: usize,
    read: usize,
    reasons: HashSet<Discriminant<DecodeReason>>,
}

fn check_agreement<M: Message>(bytes: &Bytes, version: i16, verdicts: &mut Verdicts) {
    let context = || context::<M>(version, bytes);
    // The two have different ideas of how much memory a value takes.
    let too_much = |error: &DecodeError| *error.reason() == DecodeReason::TooMuchMemory;
    let generated = M::decode(bytes.clone(), version);
    if generated.as_ref().is_err_and(too_much) {
        return;
    }
    let interpreted = dynamic::decode_within(M::SCHEMA, bytes, version, usize::MAX);
    assert_eq!(interpreted.as_ref().err(), generated.as_ref().err(), "{}", context());

    let copied = M::decode_slice(bytes, version);
    assert_eq!(copied.as_ref().err(), generated.as_ref().err(), "{}", context());
    let dump = inspect::dump(M::SCHEMA, bytes, version);
    assert_eq!(dump.error(), generated.as_ref().err(), "{}", context());

    match (interpreted, generated) {
        (Ok(interpreted), Ok(generated)) => {
            let encoded = dynamic::encode(&interpreted, M::SCHEMA, version).map(Bytes::from);
            assert_eq!(encoded, generated.encode(version), "{}", context());
            assert_eq!(encoded, copied.expect("as before").encode(version), "{}", context());
            // What is read in more than one form is written in one.
            let encoded = encoded.expect("what is read can be written");
            let again = M::decode(encoded.clone(), version).expect("what is written can be read");
            assert_eq!(again.encode(version), Ok(encoded), "{}", context());
            verdicts.read += 1;
        }
        (_, Err(error)) => {
            assert!(error.offset() <= bytes.len(), "{error}\n{}", context());
            assert_eq!((error.message(), error.version()), (M::SCHEMA.name, version), "{}", context());
            verdicts.refused += 1;
            verdicts.reasons.insert(mem::discriminant(error.reason()));
        }
        (Err(_), Ok(_)) => unreachable!("their errors are equal"),
    }
}

#[test]
fn damaged_bytes_are_refused_or_read_by_both() {
    struct Damage(Verdicts);

    impl Check for Damage {
        fn check<M: Message>(&mut self, version: i16, _: u64, random: &mut Random) {
            let value = make(M::SCHEMA, version, random, false);
            let bytes = dynamic::encode(&value, M::SCHEMA, version).expect("bytes");
            for _ in 0..DAMAGES {
                let mut damaged = damage(&bytes, random);
                if random.once_in(3) {
                    damaged = damage(&damaged, random);
                }
                check_agreement::<M>(&damaged.into(), version, &mut self.0);
            }
        }
    }

    let mut every = Every(Damage(Verdicts::default()));
    visit_messages(&mut every);
    let Verdicts { refused, read, reasons } = every.0.0;
    // Both happen often, so that neither is missed, and for every reason but these: versions are supported, and
    // memory is left out.
    assert!(refused.min(read) * 4 > refused + read, "{refused} refused, {read} read");
    assert_eq!(reasons.len(), 14);
}

#[test]
fn noise_is_refused_or_read_by_both() {
    struct Noise(Verdicts);

    impl Check for Noise {
        fn check<M: Message>(&mut self, version: i16, _: u64, random: &mut Random) {
            let n = random.below(60);
            let mut bytes = random.bytes(n);
            // Small numbers look more like a message.
            for byte in &mut bytes {
                *byte = if random.once_in(3) { *byte } else { *byte % 4 };
            }
            check_agreement::<M>(&bytes.into(), version, &mut self.0);
        }
    }

    let mut every = Every(Noise(Verdicts::default()));
    visit_messages(&mut every);
    assert!(every.0.0.refused > 0);
}

/// The cases do not change from run to run, and differ from each other.
#[test]
fn cases_come_from_their_seed() {
    let bytes = |case| {
        let mut random = Random::new("ShareFetchResponse", 2, case);
        let value = make(ShareFetchResponse::SCHEMA, 2, &mut random, false);
        dynamic::encode(&value, ShareFetchResponse::SCHEMA, 2).expect("bytes")
    };
    assert_eq!(bytes(0), bytes(0));
    assert_ne!(bytes(0), bytes(1));
}
