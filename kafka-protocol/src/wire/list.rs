use std::mem;

use super::{Array, Codec, Fault, Fixed, Reader, Sink, SmallVec, Writer};

/// What can hold the elements of an array.
pub trait List {
    /// What an array of it is made of.
    type Element;

    /// The fewest bytes that an element takes in any version.
    const MIN_ELEMENT: usize;

    /// Reads `n` elements over those that are there. `n` times [`MIN_ELEMENT`](Self::MIN_ELEMENT) bytes are left.
    ///
    /// # Errors
    ///
    /// The first [`Fault`] of an element, or [`Fault::Memory`].
    fn read(&mut self, n: usize, r: &mut Reader<'_>) -> Result<(), Fault>;

    /// The elements. Whoever needs their number too takes it from here, so that it is found out only once.
    fn elements(&self) -> &[Self::Element];

    /// Writes elements.
    ///
    /// # Errors
    ///
    /// The first [`Fault`] of an element.
    fn write<S: Sink>(elements: &[Self::Element], w: &mut Writer<'_, S>) -> Result<(), Fault>;
}

/// Elements that are already there are read over, so they keep their buffers.
impl<T: Codec + Default> List for Vec<T> {
    type Element = T;

    const MIN_ELEMENT: usize = T::MIN_SIZE;

    #[inline]
    fn read(&mut self, n: usize, r: &mut Reader<'_>) -> Result<(), Fault> {
        if n > self.capacity() {
            r.claim(n.saturating_mul(size_of::<T>()))?;
            // Not `reserve`: only the old buffers would be kept, and growing costs more than it saves.
            let old = mem::replace(self, Self::with_capacity(n));
            if old.capacity() == 0 {
                // Nothing to drop, as in every fresh value; finding that out takes longer than this.
                mem::forget(old);
            }
        }
        self.resize_with(n, T::default);
        for element in self {
            element.read(r)?;
        }
        Ok(())
    }

    #[inline(always)]
    fn elements(&self) -> &[Self::Element] {
        self
    }

    #[inline(always)]
    fn write<S: Sink>(elements: &[T], w: &mut Writer<'_, S>) -> Result<(), Fault> {
        for element in elements {
            let before = w.sink().start_element();
            let done = element.write(w);
            w.sink().end_element(before);
            done?;
        }
        Ok(())
    }
}

impl<A: Array<Item: Fixed> + Default + AsMut<[A::Item]>> List for SmallVec<A> {
    type Element = A::Item;

    const MIN_ELEMENT: usize = A::Item::SIZE;

    #[inline]
    fn read(&mut self, n: usize, r: &mut Reader<'_>) -> Result<(), Fault> {
        let block = r.rest().first_chunk::<16>();
        let bytes = r.take(n * A::Item::SIZE)?;
        if let Some(block) = block
            && bytes.len() <= 16
            && !self.spilled()
        {
            // One load of constant size; what follows the array lands behind the length.
            let mut items = A::default();
            for (item, bytes) in items.as_mut().iter_mut().zip(block.chunks_exact(A::Item::SIZE)) {
                *item = A::Item::get(bytes);
            }
            *self = Self::from_buf_and_len(items, n);
            return Ok(());
        }
        self.clear();
        self.extend(bytes.chunks_exact(A::Item::SIZE).map(A::Item::get));
        Ok(())
    }

    #[inline(always)]
    fn elements(&self) -> &[Self::Element] {
        self
    }

    #[inline(always)]
    fn write<S: Sink>(elements: &[A::Item], w: &mut Writer<'_, S>) -> Result<(), Fault> {
        w.sink().put_all(elements);
        Ok(())
    }
}
