//! The scale that a snapshot is drawn to, its own or one with another that it is compared with.

use spanlift::trace::snapshot::Snapshot;

use super::MemoryApp;
use crate::memory::against::Scale;

impl MemoryApp {
    /// What decides the scale of a snapshot; nothing of any other map.
    pub fn scale(&self) -> Option<Scale> {
        let peak = self.over_time.as_ref().map_or(0, |over| over.peak().reserved);
        self.map.is_snapshot.then_some(Scale { extent: self.frame.own, peak })
    }

    /// Draws a snapshot to one scale with another from now on, or to its own; says whether that is another one than before.
    pub fn level(&mut self, beside: Option<Scale>) -> bool {
        let beside = beside.filter(|_| self.map.is_snapshot);
        let is_new = self.beside != beside;
        if is_new {
            self.beside = beside;
            if let Some(over) = &mut self.over_time {
                over.set_beside(beside.map(|scale| scale.peak));
            }
            self.lay_out();
        }
        is_new
    }

    /// The snapshot, whether its past was looked for or not.
    pub(crate) fn snapshot(&self) -> Option<&Snapshot> {
        let of_past = || Some(self.over_time.as_ref()?.snapshot().as_ref());
        self.snapshot.as_deref().or_else(of_past)
    }
}
