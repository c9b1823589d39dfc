/// Start and end of a part of the content of a batch, which has less than 4 GiB: see
/// [`ReadOptions`](super::ReadOptions).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Span {
    start: u32,
    end: u32,
}

impl Span {
    /// Where a part of the content is.
    #[inline]
    pub(super) fn within(content: &[u8], part: &[u8]) -> Self {
        let start = part.as_ptr().addr() - content.as_ptr().addr();
        Self { start: start as u32, end: (start + part.len()) as u32 }
    }

    #[inline]
    pub(super) fn of(self, content: &[u8]) -> &[u8] {
        &content[self.start as usize..self.end as usize]
    }
}
