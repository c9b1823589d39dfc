//! Bytes in, bytes out: Kafka's encodings, nothing of its messages.
//!
//! | Kafka type | Rust type | read and write |
//! |---|---|---|
//! | bool, int8 .. int64, uint16, uint32, float64, uuid | `bool`, `i8` .. `i64`, `u16`, `u32`, `f64`, [`Uuid`] | `fixed`, also for tuples of them |
//! | string | [`Str`], nullable `Option<Str>` | `string`, `nullable_string` |
//! | bytes, records | [`Bytes`], nullable `Option<Bytes>` | `bytes`, `nullable_bytes` |
//! | array of fixed-width values | [`SmallVec`] with 16 bytes inline | `array`, `nullable_array` |
//! | array of strings or structs | `Vec` | `array`, `nullable_array` |
//! | struct | the struct, nullable `Option` of it | [`Codec::read`], `nullable_struct` |
//! | tag section | [`TaggedFields`] | `tagged_fields`, `tags` |
//!
//! Version and form (compact or legacy lengths) live in the cursors [`Reader`] and [`Writer`], so the code of a
//! message is the list of its fields. A [`Fault`] is one byte; where it happened is found afterwards, from the
//! message's schema.

mod fault;
mod fixed;
mod list;
mod reader;
mod tags;
mod writer;

pub use bytes::{Bytes, BytesMut};
pub use compact_str::CompactString as Str;
pub use smallvec::{Array, SmallVec};
pub use uuid::Uuid;

pub use fault::Fault;
pub use fixed::Fixed;
pub(crate) use fixed::fixed_newtype;
pub use list::List;
pub use reader::{Reader, Seen};
pub use tags::{TaggedFields, Tags};
pub use writer::{Count, Sink, Writer};

/// A value that reads itself over what it held before, and writes itself.
///
/// Implemented by every generated struct and by the types of fields.
pub trait Codec {
    /// The fewest bytes that the value takes in any version.
    ///
    /// An array that claims more elements than fit into the rest of the input is refused before any memory is
    /// taken for them.
    const MIN_SIZE: usize;

    /// Overwrites the whole value with what `r` is at; buffers are used again.
    ///
    /// # Errors
    ///
    /// The first [`Fault`]; the value is then half old, half new.
    fn read(&mut self, r: &mut Reader<'_>) -> Result<(), Fault>;

    /// Appends the value.
    ///
    /// # Errors
    ///
    /// The first [`Fault`]; what was written before it stays in the sink.
    fn write<S: Sink>(&self, w: &mut Writer<'_, S>) -> Result<(), Fault>;
}

macro_rules! codecs {
    ($([$($generics:tt)*] $Type:ty: $method:ident;)*) => {$(
        impl<$($generics)*> Codec for $Type {
            const MIN_SIZE: usize = 1;

            #[inline]
            fn read(&mut self, r: &mut Reader<'_>) -> Result<(), Fault> {
                r.$method(self)
            }

            #[inline]
            fn write<S: Sink>(&self, w: &mut Writer<'_, S>) -> Result<(), Fault> {
                w.$method(self)
            }
        }
    )*};
}
codecs! {
    [] Str: string;
    [] Option<Str>: nullable_string;
    [] Bytes: bytes;
    [] Option<Bytes>: nullable_bytes;
    [T: Codec + Default] Vec<T>: array;
    [A: Array<Item: Fixed> + Default + AsMut<[A::Item]>] SmallVec<A>: array;
    [L: List + Default] Option<L>: nullable_array;
}

/// Fixed-width values as fields of their own, for tag sections.
macro_rules! fixed_codecs {
    ($($Type:ty)*) => {$(
        impl $crate::wire::Codec for $Type {
            const MIN_SIZE: usize = <Self as $crate::wire::Fixed>::SIZE;

            #[inline]
            fn read(&mut self, r: &mut $crate::wire::Reader<'_>) -> Result<(), $crate::wire::Fault> {
                *self = r.fixed()?;
                Ok(())
            }

            #[inline]
            fn write<S: $crate::wire::Sink>(
                &self,
                w: &mut $crate::wire::Writer<'_, S>,
            ) -> Result<(), $crate::wire::Fault> {
                w.fixed(*self);
                Ok(())
            }
        }
    )*};
}
pub(crate) use fixed_codecs;
fixed_codecs!(bool i8 i16 u16 i32 u32 i64 f64 Uuid);
