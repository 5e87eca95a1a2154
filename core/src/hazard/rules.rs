//! The rules of order as a table: what each says and in which mode it counts.
//!
//! What a rule does stands where it is asked for, in `order`, `walk` and `capture`. Tests drop rules one by one, so that
//! each is shown to matter.

use super::Mode;

macro_rules! rules {
    ($($rule:ident $mode:ident $text:literal,)*) => {
        /// One edge of the happens-before relation, by name.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Rule {
            $(#[doc = $text] $rule,)*
        }

        impl Rule {
            /// Every rule, in the order of the table.
            pub const ALL: &[Rule] = &[$(Rule::$rule),*];

            /// What the rule says.
            pub fn text(self) -> &'static str {
                match self { $(Rule::$rule => $text,)* }
            }

            /// The weakest mode in which the rule counts.
            fn mode(self) -> Mode {
                match self { $(Rule::$rule => Mode::$mode,)* }
            }
        }
    };
}

#[rustfmt::skip]
rules! {
    // rule          mode      what it says
    Enqueue          Contract  "an action comes after everything that the calling thread did before",
    Born             Contract  "a stream comes after what `main` did before it made the stream",
    LegacyWaits      Contract  "an action on a legacy stream comes after the blocking and per-thread streams of its device",
    LegacyHolds      Contract  "an action on a blocking or per-thread stream comes after its device's legacy stream",
    RecordActs       Contract  "recording an event is an action on its stream",
    WaitActs         Contract  "waiting is an action on its stream, even for an event that was never recorded",
    Wait             Contract  "later actions come after what the event held when they were made to wait",
    EventSync        Contract  "the caller comes after what the event holds",
    EventQuery       Contract  "an event that was seen ready orders as a sync",
    StreamSync       Contract  "the caller comes after everything in the stream",
    SyncCovers       Contract  "waiting for a legacy stream covers the blocking and per-thread streams of its device",
    StreamQuery      Contract  "a stream that was seen ready orders as a sync",
    DeviceSync       Contract  "the caller comes after everything on the device",
    Spawn            Contract  "a thread comes after what `main` did before it started the thread",
    Join             Contract  "`main` comes after everything that a joined thread did",
    Channel          Contract  "a receiver comes after all earlier senders on its channel",
    MemsetReturns    Contract  "a synchronous memset of host or managed memory is over when the call returns",
    HostCopyReturns  Contract  "a copy from host to host is over when the call returns",
    StagedSync       Contract  "a synchronous copy from pageable memory waits for the stream and has read its source on return",
    SyncFromPinned   Contract  "a synchronous copy from pinned memory is over when the call returns",
    SyncToHost       Contract  "a synchronous copy to the host is over when the call returns",
    PeerWaits        Contract  "a synchronous peer copy comes after all blocking streams of all devices",
    PeerHolds        Contract  "the legacy streams of all devices come after a synchronous peer copy",
    StagedRead       Typical   "an asynchronous copy from pageable memory has read its source on return",
    PageableArrives  Typical   "an asynchronous copy to pageable memory is over when the call returns",
    FreeWaits        Typical   "freeing waits for all devices, but for pageable and stream-ordered memory",
    Reuse            Contract  "a stream-ordered allocation comes after the death of the buffer whose bytes it gets",
    NotedStream      Contract  "a caching pool hands bytes on only after the streams noted by `record_stream`",
    NotedCopy        Contract  "a pinned pool hands bytes on only after the copies that it knows of",
    CapturedWait     Contract  "a wait inside a capture orders nodes of the graph",
    CaptureOrder     Contract  "a captured stream orders its nodes of the graph",
    Relaunch         Contract  "launches of one graph come one after the other",
}

/// Which rules count.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rules {
    pub(super) mode: Mode,
    /// A rule left out on purpose, by a test.
    pub(super) without: Option<Rule>,
}

impl Rules {
    pub(super) fn hold(&self, rule: Rule) -> bool {
        rule.mode() <= self.mode && self.without != Some(rule)
    }
}
