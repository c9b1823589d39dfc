//! Kafka's encodings one by one, where the vectors do not reach.

use std::fmt::Debug;
use std::sync::LazyLock;

use kafka_protocol::protocol::schema::{FieldSchema, FieldType, MessageKind, StructSchema};
use kafka_protocol::protocol::{DecodeReason, EncodeReason, Message, MessageSchema, Versions};
use kafka_protocol::wire::{
    Bytes, BytesMut, Codec, Count, Fault, Fixed, Reader, Sink, SmallVec, Str, TaggedFields, Uuid, Writer,
};

const COMPACT: bool = true;
const LEGACY: bool = false;

fn encoded(value: &impl Codec, flexible: bool) -> Result<Vec<u8>, Fault> {
    let mut bytes = Vec::new();
    value.write(&mut Writer::new(&mut bytes, 0, flexible))?;
    Ok(bytes)
}

/// The value, and the number of bytes behind it.
fn decoded<T: Codec + Default>(bytes: &[u8], flexible: bool) -> Result<(T, usize), Fault> {
    let mut value = T::default();
    let mut r = Reader::new(bytes, 0, flexible);
    value.read(&mut r)?;
    Ok((value, r.rest().len()))
}

#[track_caller]
fn check<T: Codec + Default + PartialEq + Debug>(value: &T, flexible: bool, bytes: &[u8]) {
    assert_eq!(encoded(value, flexible).as_deref(), Ok(bytes));
    assert_eq!(decoded::<T>(bytes, flexible).as_ref().map(|(value, left)| (value, *left)), Ok((value, 0)));
    for n in 0..bytes.len() {
        let cut = decoded::<T>(&bytes[..n], flexible);
        assert!(matches!(cut, Err(Fault::Short | Fault::Count)), "{n} of {bytes:02x?}: {cut:?}");
    }
}

// ---- Varints ----

#[test]
fn varints_take_seven_bits_per_byte() {
    for (value, bytes) in [
        (0, &[0x00][..]),
        (1, &[0x01]),
        (127, &[0x7f]),
        (128, &[0x80, 0x01]),
        (300, &[0xac, 0x02]),
        (16382, &[0xfe, 0x7f]),
        (16383, &[0xff, 0x7f]),
        (16384, &[0x80, 0x80, 0x01]),
        (2_097_151, &[0xff, 0xff, 0x7f]),
        (2_097_152, &[0x80, 0x80, 0x80, 0x01]),
        (268_435_455, &[0xff, 0xff, 0xff, 0x7f]),
        (268_435_456, &[0x80, 0x80, 0x80, 0x80, 0x01]),
        (u32::MAX - 1, &[0xfe, 0xff, 0xff, 0xff, 0x0f]),
        (u32::MAX, &[0xff, 0xff, 0xff, 0xff, 0x0f]),
    ] {
        let mut written = Vec::new();
        Writer::new(&mut written, 0, COMPACT).varint(value);
        assert_eq!(written, bytes);
        let mut r = Reader::new(bytes, 0, COMPACT);
        assert_eq!((r.varint(), r.rest()), (Ok(value), &[][..]));
        for n in 0..bytes.len() {
            let mut r = Reader::new(&bytes[..n], 0, COMPACT);
            assert_eq!((r.varint(), r.rest()), (Err(Fault::Short), &bytes[..n]), "a fault moves nothing");
        }
    }
}

#[test]
fn varints_in_other_forms_are_refused() {
    for bytes in [
        &[0x80, 0x00][..],                     // 0 in two bytes
        &[0xff, 0x80, 0x00],                   // 127 in three
        &[0xff, 0xff, 0xff, 0xff, 0x10],       // bit 32
        &[0xff, 0xff, 0xff, 0xff, 0x7f],       // bits 32 to 34
        &[0xff, 0xff, 0xff, 0xff, 0x80],       // a sixth byte must follow
        &[0xff, 0xff, 0xff, 0xff, 0xff, 0x01], // a sixth byte
    ] {
        let mut r = Reader::new(bytes, 0, COMPACT);
        assert_eq!((r.varint(), r.rest()), (Err(Fault::Varint), bytes));
    }
}

// ---- Numbers ----

#[test]
fn numbers_are_big_endian_and_runs_of_them_have_no_gaps() {
    check(&true, COMPACT, &[1]);
    check(&-2i8, COMPACT, &[0xfe]);
    check(&-2i16, COMPACT, &[0xff, 0xfe]);
    check(&0xfedcu16, COMPACT, &[0xfe, 0xdc]);
    check(&0x01020304i32, COMPACT, &[1, 2, 3, 4]);
    check(&0xfedcba98u32, COMPACT, &[0xfe, 0xdc, 0xba, 0x98]);
    check(&i64::MIN, COMPACT, &[0x80, 0, 0, 0, 0, 0, 0, 0]);
    check(&-0.5f64, COMPACT, &[0xbf, 0xe0, 0, 0, 0, 0, 0, 0]);
    let id = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16];
    check(&Uuid::from_bytes(id), COMPACT, &id);

    let run = (true, -2i8, 3i16, 4i32, 5i64, 6u16, 7u32);
    let bytes = [1, 0xfe, 0, 3, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 5, 0, 6, 0, 0, 0, 7];
    let mut written = Vec::new();
    Writer::new(&mut written, 0, COMPACT).fixed(run);
    assert_eq!(written, bytes);
    assert_eq!(Reader::new(&bytes, 0, COMPACT).fixed(), Ok(run));
    let mut r = Reader::new(&bytes[1..], 0, COMPACT);
    assert_eq!(r.fixed::<(bool, i8, i16, i32, i64, u16, u32)>(), Err(Fault::Short));
    assert_eq!(r.rest(), &bytes[1..], "a fault moves nothing");
}

#[test]
fn floats_keep_their_bits() {
    for bits in
        [0x7ff8_0000_0000_0000, 0x7ff0_0000_0000_0001, 0xfff8_1234_5678_9abc, 0x8000_0000_0000_0000, 1u64]
    {
        let bytes = encoded(&f64::from_bits(bits), COMPACT).expect("eight bytes");
        assert_eq!(bytes, bits.to_be_bytes());
        assert_eq!(decoded::<f64>(&bytes, COMPACT).map(|(value, _)| value.to_bits()), Ok(bits));
    }
}

#[test]
fn every_byte_but_0_is_true() {
    for byte in 0..=255 {
        assert_eq!(decoded::<bool>(&[byte], COMPACT), Ok((byte != 0, 0)));
    }
}

// ---- Strings and bytes ----

#[test]
fn strings_have_at_most_32767_bytes() {
    for n in [0, 1, 24, 25, 126, 127, 128, 16382, 16383, 32766, 32767] {
        for text in ["x".repeat(n), "é".repeat(n / 2)] {
            let mut length = Vec::new();
            Writer::new(&mut length, 0, COMPACT).varint(text.len() as u32 + 1);
            let compact = [&length, text.as_bytes()].concat();
            let legacy = [&(text.len() as i16).to_be_bytes(), text.as_bytes()].concat();
            for (flexible, bytes) in [(COMPACT, compact), (LEGACY, legacy)] {
                let value = Str::from(&*text);
                assert_eq!(encoded(&value, flexible).as_ref(), Ok(&bytes));
                assert_eq!(encoded(&Some(value.clone()), flexible).as_ref(), Ok(&bytes));
                assert_eq!(decoded(&bytes, flexible), Ok((value.clone(), 0)));
                assert_eq!(decoded(&bytes, flexible), Ok((Some(value), 0)));
            }
        }
    }

    for text in [Str::from("x".repeat(32768)), Str::from("é".repeat(16384))] {
        for flexible in [COMPACT, LEGACY] {
            assert_eq!(encoded(&text, flexible), Err(Fault::StringTooLong));
            assert_eq!(encoded(&Some(text.clone()), flexible), Err(Fault::StringTooLong));
        }
        // 32769, which is the length and 1.
        let bytes = [&[0x81, 0x80, 0x02], text.as_bytes()].concat();
        assert_eq!(decoded::<Str>(&bytes, COMPACT), Err(Fault::StringTooLong));
        assert_eq!(decoded::<Option<Str>>(&bytes, COMPACT), Err(Fault::StringTooLong));
    }
}

#[test]
fn null_is_a_length_of_its_own() {
    check(&None::<Str>, COMPACT, &[0]);
    check(&None::<Str>, LEGACY, &[0xff, 0xff]);
    check(&None::<Bytes>, COMPACT, &[0]);
    check(&None::<Bytes>, LEGACY, &[0xff, 0xff, 0xff, 0xff]);
    check(&None::<Vec<Str>>, COMPACT, &[0]);
    check(&None::<SmallVec<[i32; 4]>>, LEGACY, &[0xff, 0xff, 0xff, 0xff]);
    check(&Some(Str::default()), COMPACT, &[1]);
    check(&Some(Bytes::new()), LEGACY, &[0, 0, 0, 0]);
    check(&Some(Vec::<Str>::new()), COMPACT, &[1]);

    fn refused<T: Codec + Default + PartialEq + Debug>() {
        assert_eq!(decoded::<T>(&[0], COMPACT), Err(Fault::Null));
        assert_eq!(decoded::<T>(&[0xff, 0xff, 0xff, 0xff], LEGACY), Err(Fault::Null));
        let below = decoded::<T>(&[0xff, 0xfe, 0xff, 0xfe], LEGACY);
        assert_eq!(below, Err(Fault::NegativeLength));
    }
    refused::<Str>();
    refused::<Bytes>();
    refused::<Vec<Str>>();
    refused::<SmallVec<[i32; 4]>>();
    assert_eq!(decoded::<Option<Str>>(&[0xff, 0xfe], LEGACY), Err(Fault::NegativeLength));
    assert_eq!(decoded::<Option<Bytes>>(&[0xff, 0xff, 0xff, 0xfe], LEGACY), Err(Fault::NegativeLength));
    assert_eq!(decoded::<Option<Vec<Str>>>(&i32::MIN.to_be_bytes(), LEGACY), Err(Fault::NegativeLength));
}

#[test]
fn bytes_are_slices_of_the_input_or_copies() {
    let frame = Bytes::from(vec![4, b'a', b'b', b'c']);
    let mut shared = Bytes::new();
    shared.read(&mut Reader::sharing(&frame, 0, COMPACT)).expect("bytes");
    assert_eq!(shared, "abc");
    assert_eq!(shared.as_ptr(), frame[1..].as_ptr());

    let mut copied = Bytes::new();
    copied.read(&mut Reader::new(&frame, 0, COMPACT)).expect("bytes");
    assert_eq!(copied, "abc");
    assert_ne!(copied.as_ptr(), frame[1..].as_ptr());
}

// ---- Arrays ----

/// Sixteen bytes of an array have their place inside the value; reading and writing go in blocks of that size.
#[test]
fn arrays_of_numbers_have_the_same_bytes_at_every_length() {
    fn check_lengths<T, const N: usize>(element: impl Fn(usize) -> T)
    where
        T: Fixed + PartialEq + Debug,
        [T; N]: kafka_protocol::wire::Array<Item = T> + Default + AsMut<[T]>,
    {
        assert_eq!(N * T::SIZE, 16);
        for n in 0..40 {
            let value: SmallVec<[T; N]> = (0..n).map(&element).collect();
            let mut bytes = (n as i32).to_be_bytes().to_vec();
            for &element in &value {
                Writer::new(&mut bytes, 0, LEGACY).fixed(element);
            }
            check(&value, LEGACY, &bytes);

            let mut written = BytesMut::new();
            value.write(&mut Writer::new(&mut written, 0, LEGACY)).expect("an array");
            assert_eq!(written, bytes);
            let mut count = Count::default();
            value.write(&mut Writer::new(&mut count, 0, LEGACY)).expect("an array");
            assert_eq!(count.position(), bytes.len());

            // What stood there before, inside or outside the value, leaves no trace; nor does what follows.
            bytes.extend([0xee; 20]);
            for before in [0, 1, N, N + 1, 100] {
                let mut used: SmallVec<[T; N]> = (0..before).map(|i| element(i + 1000)).collect();
                let mut r = Reader::new(&bytes, 0, LEGACY);
                assert_eq!(used.read(&mut r), Ok(()));
                assert_eq!((used, r.rest()), (value.clone(), &[0xee; 20][..]));
            }
        }
    }
    check_lengths::<bool, 16>(|i| i % 3 == 0);
    check_lengths::<i8, 16>(|i| i as i8);
    check_lengths::<i16, 8>(|i| (i as i16).wrapping_mul(257));
    check_lengths::<i32, 4>(|i| i as i32 * -65537);
    check_lengths::<u32, 4>(|i| (i as u32).wrapping_mul(0x0102_0304));
    check_lengths::<i64, 2>(|i| i as i64 * i64::from(i32::MAX));
    check_lengths::<Uuid, 1>(|i| Uuid::from_u128(i as u128 * 0x0102_0304_0506_0708_090a));
}

#[test]
fn arrays_of_strings_are_read_over_longer_and_shorter_ones() {
    let array = |n: usize| (0..n).map(|i| Str::from("name".repeat(10 * i))).collect::<Vec<_>>();
    for n in [0, 1, 3, 5] {
        for flexible in [COMPACT, LEGACY] {
            let bytes = encoded(&array(n), flexible).expect("an array");
            for before in [0, 2, 5, 9] {
                let mut used = array(before);
                assert_eq!(used.read(&mut Reader::new(&bytes, 0, flexible)), Ok(()));
                assert_eq!(used, array(n));
            }
        }
    }
}

#[test]
fn structs_that_may_be_null_have_a_marker() {
    fn read(bytes: &[u8], tagged: bool) -> Result<Option<i16>, Fault> {
        let mut value = Some(9);
        let mut r = Reader::new(bytes, 0, COMPACT);
        let done = if tagged { r.tagged_struct(&mut value) } else { r.nullable_struct(&mut value) };
        done.map(|()| value)
    }
    assert_eq!(read(&[1, 0, 7], false), Ok(Some(7)));
    assert_eq!(read(&[0xff], false), Ok(None));
    assert_eq!(read(&[1, 0, 7], true), Ok(Some(7)));
    assert_eq!(read(&[0], true), Ok(None));
    for marker in [0, 2, 0x7f, 0xfe] {
        assert_eq!(read(&[marker, 0, 7], false), Err(Fault::Marker));
    }
    for marker in [2, 0x7f, 0xfe, 0xff] {
        assert_eq!(read(&[marker, 0, 7], true), Err(Fault::Marker));
    }
    for bytes in [&[][..], &[1], &[1, 0]] {
        assert_eq!(read(bytes, false), Err(Fault::Short));
        assert_eq!(read(bytes, true), Err(Fault::Short));
    }

    let mut bytes = Vec::new();
    let mut w = Writer::new(&mut bytes, 0, COMPACT);
    w.nullable_struct(&Some(7i16)).and_then(|()| w.nullable_struct(&None::<i16>)).expect("structs");
    assert_eq!(bytes, [1, 0, 7, 0xff]);
    // In a tag section: a count, and each with tag and size.
    let mut bytes = Vec::new();
    Writer::new(&mut bytes, 0, COMPACT)
        .tags(2, &TaggedFields::default(), |tags| {
            tags.nullable_struct(0, false, &Some(7i16))?;
            tags.nullable_struct(1, false, &None::<i16>)
        })
        .expect("structs");
    assert_eq!(bytes, [2, 0, 3, 1, 0, 7, 1, 1, 0]);
}

// ---- Tagged fields ----

fn tagged_fields(fields: &[(u32, &[u8])]) -> TaggedFields {
    let mut tagged = TaggedFields::default();
    for &(tag, value) in fields {
        assert_eq!(tagged.push(tag, value), Ok(()));
    }
    tagged
}

fn read_tagged_fields(bytes: &[u8]) -> Result<TaggedFields, Fault> {
    // Over one that has fields already.
    let mut fields = tagged_fields(&[(7, b"old")]);
    let mut r = Reader::new(bytes, 0, COMPACT);
    r.tagged_fields(&mut fields)?;
    assert!(r.rest().is_empty());
    Ok(fields)
}

#[test]
fn tagged_fields_give_back_what_was_put_in() {
    let long = [0xab; 200];
    let all: &[(u32, &[u8])] = &[(0, b""), (1, b"\x01"), (127, b"ab"), (128, &long), (u32::MAX, b"last")];
    let fields = tagged_fields(all);
    assert_eq!((fields.len(), fields.is_empty()), (5, false));
    assert!(
        fields
            .iter()
            .map(|(tag, value)| (tag, value.to_vec()))
            .eq(all.iter().map(|&(tag, value)| (tag, value.to_vec())))
    );
    for &(tag, value) in all {
        assert_eq!(fields.get(tag).as_deref(), Some(value));
    }
    for tag in [2, 126, 129, u32::MAX - 1] {
        assert_eq!(fields.get(tag), None);
    }

    let mut fields = fields;
    fields.clear();
    assert_eq!(fields, TaggedFields::default());
    assert_eq!((fields.len(), fields.is_empty(), fields.iter().count(), fields.get(0)), (0, true, 0, None));
}

#[test]
fn tags_must_ascend() {
    let mut fields = tagged_fields(&[(3, b"three"), (5, b"five")]);
    let before = fields.clone();
    for tag in [0, 3, 4, 5] {
        assert_eq!(fields.push(tag, b"x"), Err(Fault::TagOrder));
        assert_eq!(fields, before, "nothing is lost");
    }
    assert_eq!(fields.push(6, b"six"), Ok(()));
    assert_eq!(fields.len(), 3);
}

#[test]
fn tagged_fields_equal_those_that_were_decoded() {
    let fields = tagged_fields(&[(3, b"\xaa"), (200, b"")]);
    let section = [2, 3, 1, 0xaa, 0xc8, 0x01, 0];
    let mut bytes = Vec::new();
    Writer::new(&mut bytes, 0, COMPACT).tagged_fields(&fields).expect("a section");
    assert_eq!(bytes, section);

    let mut decoded = read_tagged_fields(&section).expect("a section");
    assert_eq!(decoded, fields);
    assert_eq!(format!("{decoded:?}"), r#"{3: b"\xaa", 200: b""}"#);
    assert_ne!(decoded, tagged_fields(&[(3, b"\xaa")]));
    assert_ne!(decoded, tagged_fields(&[(3, b"\xab"), (200, b"")]));

    // More can be put behind, which does not reach those who share the bytes.
    let shared = decoded.clone();
    assert_eq!(decoded.push(201, b"more"), Ok(()));
    assert_eq!(decoded.push(200, b"again"), Err(Fault::TagOrder));
    assert_eq!(shared, fields);
    assert_eq!(decoded, tagged_fields(&[(3, b"\xaa"), (200, b""), (201, b"more")]));
}

#[test]
fn damaged_tag_sections_are_refused() {
    assert_eq!(read_tagged_fields(&[0]), Ok(TaggedFields::default()));
    for (section, fault) in [
        (&[][..], Fault::Short),
        (&[1], Fault::Short),
        (&[1, 5], Fault::Short),
        (&[1, 5, 1], Fault::Short),
        (&[2, 5, 0], Fault::Short),
        (&[2, 5, 0, 5, 0], Fault::TagOrder),
        (&[2, 5, 0, 4, 0], Fault::TagOrder),
        (&[1, 0x80, 0x00, 0], Fault::Varint),
        (&[0x80, 0x00], Fault::Varint),
        (&[2, 0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0, 0], Fault::TagOrder),
    ] {
        assert_eq!(read_tagged_fields(section), Err(fault), "{section:02x?}");
    }
}

#[test]
fn versions_without_tag_sections_have_no_bytes_for_them() {
    let mut bytes = Vec::new();
    let mut w = Writer::new(&mut bytes, 0, LEGACY);
    assert_eq!(w.tagged_fields(&TaggedFields::default()), Ok(()));
    assert_eq!(w.tagged_fields(&tagged_fields(&[(0, b"")])), Err(Fault::NotInVersion));
    assert!(bytes.is_empty());

    let mut fields = tagged_fields(&[(0, b"old")]);
    assert_eq!(Reader::new(&[], 0, LEGACY).tagged_fields(&mut fields), Ok(()));
    assert!(fields.is_empty());
}

// ---- Memory ----

/// A message that is mostly names. Empty ones take 24 times their byte, which is more than hostile bytes may.
#[derive(Clone, Debug, Default, PartialEq)]
struct Names {
    names: Vec<Str>,
    unknown_tagged_fields: TaggedFields,
}

static NAMES: MessageSchema = MessageSchema {
    name: "Names",
    kind: MessageKind::Data,
    api_key: None,
    versions: Versions::new(0, 1),
    flexible_versions: Versions::since(1),
    root: &StructSchema {
        name: "Names",
        doc: "Names.",
        min_size: 2,
        known_tags: 0,
        fields: &[FieldSchema::new("Names", "names", FieldType::Array(&FieldType::String), "Names.")],
        retired: FieldSchema::NONE,
    },
};

impl Codec for Names {
    const MIN_SIZE: usize = 2;

    fn read(&mut self, r: &mut Reader<'_>) -> Result<(), Fault> {
        r.array(&mut self.names)?;
        r.tagged_fields(&mut self.unknown_tagged_fields)
    }

    fn write<S: Sink>(&self, w: &mut Writer<'_, S>) -> Result<(), Fault> {
        w.array(&self.names)?;
        w.tagged_fields(&self.unknown_tagged_fields)
    }
}

impl Message for Names {
    const SCHEMA: &'static MessageSchema = &NAMES;
}

#[test]
fn what_would_take_many_times_its_bytes_is_refused() {
    let empty = |n| Names { names: vec![Str::default(); n], ..Default::default() };
    let few = empty(100);
    assert_eq!(Names::decode(few.encode(1).expect("bytes"), 1), Ok(few));

    let error = Names::decode(empty(10_000).encode(1).expect("bytes"), 1).expect_err("24 times");
    assert_eq!((error.path(), error.offset(), error.reason()), ("names", 0, &DecodeReason::TooMuchMemory));
    assert_eq!(
        error.to_string(),
        "Names v1: names at byte 0: the value would take many times the memory of the message"
    );

    // Two bytes and more a name are what people send.
    let short = Names { names: vec![Str::new("a"); 10_000], ..Default::default() };
    assert_eq!(Names::decode(short.encode(1).expect("bytes"), 1), Ok(short));
    // The length of a legacy string is two bytes itself.
    let legacy = empty(10_000);
    assert_eq!(Names::decode(legacy.encode(0).expect("bytes"), 0), Ok(legacy));

    // A value that has the room already needs no more.
    let bytes = empty(10_000).encode(1).expect("bytes");
    let mut roomy = empty(10_000);
    assert_eq!(roomy.decode_from(&bytes, 1), Ok(()));
}

#[test]
fn a_message_of_strings_that_cannot_be_written_names_the_string() {
    static LONG: LazyLock<Str> = LazyLock::new(|| Str::from("x".repeat(32768)));
    let names = Names { names: vec![Str::new("a"), Str::default(), LONG.clone()], ..Default::default() };
    for version in [0, 1] {
        let error = names.encode(version).expect_err("too long");
        assert_eq!((error.path(), error.reason()), ("names[2]", &EncodeReason::StringTooLong));

        let mut count = Count::default();
        count.put(b"before");
        assert_eq!(names.encode_into(&mut count, version), Err(error));
        assert_eq!(count.position(), 6);
    }
}
