//! The JSON form of a program.
//!
//! `{"schema_version": 1, "ops": [{"op": "stream", ...}, ...]}`; `title` and `machine` (a profile's name) are optional,
//! other keys are ignored. Types: `str`, `int`, `bool`, `Span`, `[Span]`; a field without a default is required.
//!
//! | op | fields |
//! |---|---|
//! | any | `t` str, the calling host thread, default `"main"`; `label` str, default none |
//! | `stream` | `s`; `dev` int; `kind` `nonblocking`, `blocking` or `per_thread`; `thread` str, default `"main"`; `priority` int, default 0 |
//! | `stream_destroy`, `stream_sync` | `s` |
//! | `alloc` | `buf`; `bytes` int; `space` `device`, `pinned`, `pageable` or `managed`; `dev` int; `via` `malloc`, `malloc_async`, `pool`, `pinned_pool` or `rawpool`; `s`, default none; `reuse` str, default none; `contents` Contents, default none |
//! | `free` | `buf`; `via` `free`, `free_async`, `pool`, `pinned_pool`, `rawpool`, `host_free` or `unregister`; `s`, default none |
//! | `record_stream` | `buf`; `s` |
//! | `kernel` | `s`; `reads`, `writes` `[Span]`; `grid` `"full"`, default none; `takes_ns` int, default none; `compute` Compute, default none |
//! | `copy` | `s`; `dst`, `src` Span; `sync` bool; `peer`, `untracked`, `torch` bool, default false |
//! | `memset` | `s`; `dst` Span; `sync` bool; `value` int, default 0 |
//! | `host_read` | `span` Span; `expect` Contents, default none |
//! | `host_write` | `span` Span; `contents` Contents, default none |
//! | `host_fn` | `s`; `reads`, `writes` `[Span]`; `takes_ns` int, default none; `compute` Compute, default none |
//! | `event_create`, `event_destroy`, `event_sync` | `e` |
//! | `record`, `wait` | `e`; `s` |
//! | `event_query` | `e`; `ready` bool |
//! | `stream_query` | `s`; `ready` bool |
//! | `device_sync` | `dev` int |
//! | `thread_spawn`, `thread_join` | `t` |
//! | `signal`, `await` | `ch` |
//! | `host_sleep` | `us` int |
//! | `host_copy` | `dst`, `src` Span |
//! | `host_work` | `ns` int; `label` str, default `""`; `cost` `framework_to`, `dict_leaf` or `pin_overhead`, default none: the machine's figure instead of `ns` |
//! | `capture_begin` | `s` |
//! | `capture_end`, `graph_launch` | `s`; `g` |
//! | `mark` | none but `label` |
//!
//! Span: `{"buf", "off", "len"}` or `{"buf", "off", "dims": [[count, stride], ...], "elem"}`, each with `"opaque"`, default
//! false. Contents: `{"dtype", "fill"}`, `{"dtype", "start", "step"}`, `{"dtype", "values": [...]}` or `{"seed"}`. Compute:
//! `{"dtype", "fn": "fill", "value"}`, `{"dtype", "fn": "affine", "mul", "add"}`, `{"dtype", "fn": "mul", "conj"}`,
//! `{"dtype", "fn": "multiple", "factor"}`, `{"dtype", "fn": "where", "above"}`, `{"dtype", "fn": "guard", "strict"}`,
//! `{"dtype", "fn": "shrink", "by"}`, or `{"dtype", "fn"}` with `add`, `dot`, `divide` or `sqrt`; what they mean, says
//! [`Func`](super::Func).

mod fields;
mod read;
mod value;
mod write;

pub(super) use read::{read, read_each};
pub(super) use write::{write, write_command};
