//! The rules of order as a table: what each says and in which mode it counts.
//!
//! What a rule does stands where it is asked for, in `order`, `walk` and `capture`. Tests drop rules one by one, so that
//! each is shown to matter.

use super::{Mode, Terms};

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
    WaitActs         Contract  "waiting for a recorded event is an action on its stream",
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

macro_rules! mutations {
    ($($mutation:ident $text:literal,)*) => {
        /// A fault that is put into the checker on purpose, besides the loss of a [`Rule`]: tests show that each is noticed.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Mutation {
            /// A rule is lost.
            Without(Rule),
            $(#[doc = $text] $mutation,)*
        }

        impl Mutation {
            /// Every mutation but the losses.
            pub const STRAY: &[Mutation] = &[$(Mutation::$mutation),*];

            /// What is wrong with the checker.
            pub fn text(self) -> String {
                match self {
                    Mutation::Without(rule) => format!("nothing says that {}", rule.text()),
                    $(Mutation::$mutation => $text.to_owned(),)*
                }
            }

            /// All of them.
            pub fn all() -> impl Iterator<Item = Mutation> {
                Rule::ALL.iter().map(|&rule| Mutation::Without(rule)).chain(Mutation::STRAY.iter().copied())
            }
        }
    };
}

#[rustfmt::skip]
mutations! {
    // mutation           what is wrong
    NonBlockingFenced     "non-blocking streams stand in order with the legacy one",
    PerThreadApart        "per-thread streams do not",
    SyncCoversAll         "waiting for a legacy stream covers non-blocking streams too",
    DeviceSyncEverywhere  "waiting for one device covers all",
    DestroySyncs          "destroying a stream waits for it",
    AllocSyncs            "allocating waits for all devices",
    WaitTakesStream       "waiting for an event takes what its stream holds by then",
    SyncTakesStream       "syncing with an event takes what its stream holds by then",
    EmptyWaitActs         "waiting for an event that was never recorded is an action too",
    FirstRecordStays      "a second record of an event is ignored",
    DestroyedStillHolds   "a destroyed event still holds its record",
    NotReadyOrders        "seeing something unfinished orders as a sync",
    LastSenderOnly        "a channel keeps its last sender alone",
    StagedInContract      "the documentation promises that pageable sources are read on return",
    ArrivesInContract     "the documentation promises that copies to pageable memory are over on return",
    FreeWaitsInContract   "the documentation promises that freeing waits",
    EveryFreeWaits        "freeing pageable and stream-ordered memory waits too",
    MemsetAlwaysReturns   "a synchronous memset of device memory is over when the call returns",
    SyncWithinDevice      "a synchronous copy within a device is over when the call returns",
    PeerAlwaysFences      "an asynchronous peer copy fences all devices",
    RawPoolWaits          "a home-made pool waits for noted streams",
    UntrackedNoted        "the pinned pool knows of untracked copies",
    KeptAtReuse           "a pool keeps frontiers as they are at the reuse, not at the free",
    HistoryDies           "what happened to a block is forgotten when it is reused",
    BirthsUnseen          "uses before a stream-ordered allocation are not looked for",
    DeathsUnseen          "frees in flight are not looked for",
    FreedUnseen           "uses after a free are not looked for",
    GraphsInLine          "launches of all graphs come one after the other",
    BoundingBoxes         "strided spans are their bounding ranges",
    StartsOnly            "only spans that begin at the same byte conflict",
    OpaqueIsSure          "upper bounds are taken for exact",
    LastReaderOnly        "of all readers the last one is kept",
    WriteWriteUnseen      "two writes do not conflict",
    // Where copies keep no rules:
    LooseWhenSync         "synchronous copies are in no order either",
    LooseAfterStream      "an unordered copy comes after its stream's work",
    LooseBeforeStream     "its stream's later work comes after an unordered copy",
    LooseRecorded         "an event holds the unordered copies of its stream",
    LooseInLine           "unordered copies of one stream come one after the other",
    LooseReturns          "an unordered copy is over when its call returns",
    LooseUnjoined         "waiting for a stream leaves its unordered copies out",
    LooseLeftByDevice     "waiting for a device leaves unordered copies out",
    LooseLeftByFree       "freeing, where it waits, leaves unordered copies out",
    LooseCovered          "waiting for a legacy stream covers unordered copies of the blocking ones",
}

/// Which rules count.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rules {
    pub(super) terms: Terms,
    /// A fault put in on purpose, by a test.
    pub(super) mutation: Option<Mutation>,
}

impl Rules {
    pub(super) fn of(terms: Terms) -> Rules {
        Rules { terms, mutation: None }
    }

    /// Whether an asynchronous copy, or with a fault any, stands in no stream's order.
    pub(super) fn loosens(&self, is_sync: bool) -> bool {
        !self.terms.ordered_copies && (!is_sync || self.stray(Mutation::LooseWhenSync))
    }

    pub(super) fn hold(&self, rule: Rule) -> bool {
        // One comparison where nothing is wrong.
        match self.mutation {
            None => rule.mode() <= self.terms.mode,
            Some(mutation) => match (mutation, rule) {
                (Mutation::Without(lost), _) if lost == rule => false,
                (Mutation::StagedInContract, Rule::StagedRead)
                | (Mutation::ArrivesInContract, Rule::PageableArrives)
                | (Mutation::FreeWaitsInContract, Rule::FreeWaits) => true,
                _ => rule.mode() <= self.terms.mode,
            },
        }
    }

    /// Whether this fault was put in.
    pub(super) fn stray(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
    }
}
