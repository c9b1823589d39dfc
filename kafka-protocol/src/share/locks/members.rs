use std::collections::HashMap;

use crate::wire::Str;

use super::Record;

/// Members by number, so that a record need not hold a name.
#[derive(Clone, Debug, Default)]
pub(super) struct Members {
    numbers: HashMap<Str, u32>,
    /// By number; empty when the number is free, or for a member whose name is.
    names: Vec<Str>,
    free: Vec<u32>,
    /// Who has acquired something last, who is probably the next to be asked for.
    recent: u32,
}

impl Members {
    /// The number of a member, which it gets when it has none.
    pub(super) fn number(&mut self, member_id: &str) -> u32 {
        if let Some(number) = self.get(member_id) {
            self.recent = number;
            return number;
        }
        let number = self.free.pop().unwrap_or_else(|| {
            self.names.push(Str::default());
            self.names.len() as u32 - 1
        });
        self.names[number as usize] = member_id.into();
        self.numbers.insert(member_id.into(), number);
        self.recent = number;
        number
    }

    pub(super) fn get(&self, member_id: &str) -> Option<u32> {
        match self.names.get(self.recent as usize) {
            Some(name) if name == member_id && !name.is_empty() => Some(self.recent),
            _ => self.numbers.get(member_id).copied(),
        }
    }

    /// Forgets a member, that must not have acquired anything any more when the next one comes.
    pub(super) fn remove(&mut self, member_id: &str) -> Option<u32> {
        let number = self.numbers.remove(member_id)?;
        self.names[number as usize] = Str::default();
        self.free.push(number);
        Some(number)
    }

    /// Who has acquired a record.
    pub(super) fn name(&self, record: &Record) -> Option<&str> {
        record.is_acquired().then(|| self.names[record.member as usize].as_str())
    }
}
