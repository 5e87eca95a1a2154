//! The checker's rules by name, so that a test can break one and see that the planted bugs notice.

/// A rule of order, overlap or forgetting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rule {
    /// An operation knows what the operation before it in its stream knows.
    Fifo,
    /// An operation knows what the host knew when it was enqueued.
    Enqueue,
    /// A wait knows what the record knows.
    Event,
    /// A wait takes the record that was there when it was called.
    Version,
    /// The legacy default stream and blocking streams know each other's work.
    Legacy,
    /// Non-blocking streams have no part in that.
    NonBlocking,
    /// Who waited on the host knows what it waited for.
    HostSync,
    /// Waiting for an event brings the host what the event knows, and no more.
    EventSync,
    /// A device's synchronisation is that device's alone.
    DeviceSync,
    /// The last byte of a range counts.
    LastByte,
    /// Reads are kept, for writes to conflict with.
    Reads,
    /// What something queued may still conflict with is not forgotten.
    Queued,
    /// An allocation in stream order is an access.
    Birth,
    /// A free in stream order is an access.
    Death,
    /// The host's own accesses count.
    Host,
}

#[cfg(test)]
thread_local! {
    /// The rule that this thread's engines do without.
    pub(crate) static BROKEN: std::cell::Cell<Option<Rule>> = const { std::cell::Cell::new(None) };
}

impl Rule {
    #[cfg(test)]
    pub(crate) const ALL: [Rule; 15] = [
        Rule::Fifo,
        Rule::Enqueue,
        Rule::Event,
        Rule::Version,
        Rule::Legacy,
        Rule::NonBlocking,
        Rule::HostSync,
        Rule::EventSync,
        Rule::DeviceSync,
        Rule::LastByte,
        Rule::Reads,
        Rule::Queued,
        Rule::Birth,
        Rule::Death,
        Rule::Host,
    ];

    /// Whether the rule is applied: always, except where a test broke it.
    pub(crate) fn holds(self) -> bool {
        #[cfg(test)]
        return BROKEN.get() != Some(self);
        #[cfg(not(test))]
        true
    }
}
