//! The tables of names of one program.

use std::marker::PhantomData;
use std::sync::Arc;

use super::command::{BufferId, ChannelId, EventId, GraphId, StreamId, ThreadId};
use super::words::MAX_DEVICES;
use crate::id::{Id, TooMany};
use crate::ordered::hot::BTreeMap;

/// The names of one kind of thing, in order of first mention.
#[derive(Debug)]
pub(crate) struct Table<T> {
    names: Vec<Arc<str>>,
    /// Places in `names`: without the mark, so that all tables have one kind of map.
    by_name: BTreeMap<Arc<str>, usize>,
    /// No number from that of all names at some time up to here is free for [`Table::unused`].
    tried: usize,
    mark: PhantomData<fn() -> T>,
}

// Written by hand: derives would ask the same of `T`, which is only a mark.
impl<T> Clone for Table<T> {
    fn clone(&self) -> Self {
        Table { names: self.names.clone(), by_name: self.by_name.clone(), ..*self }
    }
}
impl<T> PartialEq for Table<T> {
    fn eq(&self, other: &Self) -> bool {
        self.names == other.names
    }
}
impl<T> Default for Table<T> {
    fn default() -> Self {
        Table { names: Vec::new(), by_name: BTreeMap::new(), tried: 0, mark: PhantomData }
    }
}

impl<T> Table<T> {
    pub(crate) fn intern(&mut self, name: &str) -> Result<Id<T>, TooMany> {
        if let Some(&place) = self.by_name.get(name) {
            return Id::try_from(place);
        }
        let place = self.names.len();
        let id = Id::try_from(place)?;
        let name: Arc<str> = name.into();
        self.names.push(Arc::clone(&name));
        self.by_name.insert(name, place);
        Ok(id)
    }

    /// `word` with a number that nothing has: how many names there are, or the next that is free. No name goes away, so none is
    /// looked at twice.
    pub(crate) fn unused(&mut self, word: &str) -> String {
        self.tried = self.tried.max(self.names.len());
        loop {
            let name = format!("{word}{}", self.tried);
            if self.find(&name).is_none() {
                return name;
            }
            self.tried += 1;
        }
    }

    /// All names in order.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(|name| &**name)
    }

    pub(super) fn find(&self, name: &str) -> Option<Id<T>> {
        self.by_name.get(name).and_then(|&place| Id::try_from(place).ok())
    }

    fn name(&self, id: Id<T>) -> &str {
        self.names.get(id.index()).map_or("?", |name| name)
    }
}

/// The names of a program's streams, buffers, events, threads, channels and graphs.
///
/// Legacy default streams are named `0` (device 0) and `0@N` (device N) and need no declaration; neither does the thread
/// `main`, which is [`Id::FIRST`].
#[derive(Debug, Clone, PartialEq)]
pub struct Names {
    pub(crate) streams: Table<super::Stream>,
    pub(crate) buffers: Table<super::Buffer>,
    pub(crate) events: Table<super::Event>,
    pub(crate) threads: Table<super::Thread>,
    pub(crate) channels: Table<super::Channel>,
    pub(crate) graphs: Table<super::Graph>,
}

impl Default for Names {
    fn default() -> Self {
        let mut threads = Table::default();
        threads.intern("main").unwrap_or_else(|_| unreachable!("bug: the first name always fits"));
        Names {
            streams: Table::default(),
            buffers: Table::default(),
            events: Table::default(),
            threads,
            channels: Table::default(),
            graphs: Table::default(),
        }
    }
}

/// The device of a legacy default stream's name: `0` is device 0, `0@3` device 3, other names none.
pub(crate) fn legacy_device(name: &str) -> Option<u32> {
    match name.strip_prefix('0')? {
        "" => Some(0),
        rest => {
            let digits = rest.strip_prefix('@')?;
            // One spelling per stream: no sign, no leading zero, and device 0 is plain `0`.
            let canonical = digits.bytes().all(|b| b.is_ascii_digit()) && !digits.starts_with('0');
            if canonical { digits.parse().ok().filter(|&dev| dev < MAX_DEVICES) } else { None }
        }
    }
}

impl Names {
    /// The device whose legacy default stream this is; none for other streams.
    pub fn legacy_device(&self, stream: StreamId) -> Option<u32> {
        legacy_device(self.stream(stream))
    }
}

macro_rules! tables {
    ($($table:ident, $name:ident, $find:ident, $count:ident, $id:ty, $what:literal;)*) => {
        impl Names {
            $(
                #[doc = concat!("The name of this ", $what, "; `?` where the id comes from another program that has more.")]
                pub fn $name(&self, id: $id) -> &str {
                    self.$table.name(id)
                }

                #[doc = concat!("The ", $what, " with this name, if a command mentions it.")]
                pub fn $find(&self, name: &str) -> Option<$id> {
                    self.$table.find(name)
                }

                #[doc = concat!("How many names of this kind there are (", $what, ").")]
                pub fn $count(&self) -> usize {
                    self.$table.names.len()
                }
            )*
        }
    };
}

tables! {
    streams,  stream,  find_stream,  n_streams,  StreamId,  "stream";
    buffers,  buffer,  find_buffer,  n_buffers,  BufferId,  "buffer";
    events,   event,   find_event,   n_events,   EventId,   "event";
    threads,  thread,  find_thread,  n_threads,  ThreadId,  "host thread";
    channels, channel, find_channel, n_channels, ChannelId, "channel";
    graphs,   graph,   find_graph,   n_graphs,   GraphId,   "graph";
}
