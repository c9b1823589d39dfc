use super::Uuid;

/// A value of constant width, or a tuple of them: one bounds check to read, one append to write.
pub trait Fixed: Copy + Default {
    /// The number of bytes.
    const SIZE: usize;

    /// Reads the first [`SIZE`](Self::SIZE) bytes, which must be there.
    fn get(bytes: &[u8]) -> Self;

    /// Fills the first [`SIZE`](Self::SIZE) bytes, which must be there.
    fn put(self, bytes: &mut [u8]);
}

macro_rules! numbers {
    ($($T:ident)*) => {$(
        impl Fixed for $T {
            const SIZE: usize = size_of::<$T>();

            #[inline(always)]
            fn get(bytes: &[u8]) -> Self {
                let mut own = [0; size_of::<$T>()];
                own.copy_from_slice(&bytes[..Self::SIZE]);
                Self::from_be_bytes(own)
            }

            #[inline(always)]
            fn put(self, bytes: &mut [u8]) {
                bytes[..Self::SIZE].copy_from_slice(&self.to_be_bytes());
            }
        }
    )*};
}
numbers!(i8 i16 u16 i32 u32 i64 f64);

/// As in Kafka, every byte but 0 is true.
impl Fixed for bool {
    const SIZE: usize = 1;

    #[inline(always)]
    fn get(bytes: &[u8]) -> Self {
        bytes[0] != 0
    }

    #[inline(always)]
    fn put(self, bytes: &mut [u8]) {
        bytes[0] = self.into();
    }
}

impl Fixed for Uuid {
    const SIZE: usize = 16;

    #[inline(always)]
    fn get(bytes: &[u8]) -> Self {
        let mut own = [0; 16];
        own.copy_from_slice(&bytes[..16]);
        Self::from_bytes(own)
    }

    #[inline(always)]
    fn put(self, bytes: &mut [u8]) {
        bytes[..16].copy_from_slice(self.as_bytes());
    }
}

/// A newtype over a fixed-width value is one itself.
macro_rules! fixed_newtype {
    ($New:ident($Old:ident)) => {
        impl $crate::wire::Fixed for $New {
            const SIZE: usize = <$Old as $crate::wire::Fixed>::SIZE;

            #[inline(always)]
            fn get(bytes: &[u8]) -> Self {
                Self($crate::wire::Fixed::get(bytes))
            }

            #[inline(always)]
            fn put(self, bytes: &mut [u8]) {
                $crate::wire::Fixed::put(self.0, bytes);
            }
        }
        $crate::wire::fixed_codecs!($New);
    };
}
pub(crate) use fixed_newtype;

macro_rules! runs {
    ($($T:ident $value:ident)*) => {
        runs!(@ $($T $value)*);
    };
    (@) => {};
    (@ $First:ident $first:ident $($T:ident $value:ident)*) => {
        impl<$First: Fixed, $($T: Fixed),*> Fixed for ($First, $($T,)*) {
            const SIZE: usize = $First::SIZE $(+ $T::SIZE)*;

            #[inline(always)]
            fn get(bytes: &[u8]) -> Self {
                let $first = $First::get(bytes);
                let bytes = &bytes[$First::SIZE..];
                $(
                    let $value = $T::get(bytes);
                    let bytes = &bytes[$T::SIZE..];
                )*
                let _ = bytes;
                ($first, $($value,)*)
            }

            #[inline(always)]
            fn put(self, bytes: &mut [u8]) {
                let ($first, $($value,)*) = self;
                $first.put(bytes);
                let bytes = &mut bytes[$First::SIZE..];
                $(
                    $value.put(bytes);
                    let bytes = &mut bytes[$T::SIZE..];
                )*
                let _ = bytes;
            }
        }
        runs!(@ $($T $value)*);
    };
}
runs!(A a B b C c D d E e F f G g H h I i J j K k L l);
