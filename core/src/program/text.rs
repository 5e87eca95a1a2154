//! The text form of a program: one command a line, as a person would write it.
//!
//! ```text
//! machine h200-pcie5
//! stream  copy, compute           # non-blocking, device 0
//! pinned  x 4MiB
//! device  d 4MiB on cuda:0
//!
//! copy    d <- x on copy
//! kernel  scale on compute reads d writes d for 120us
//! sync    compute
//! ```
//!
//! Words stand apart by blanks, `#` starts a comment, and what stands in `[ ]` below may be left out. After the names
//! the parts of a line may come in any order. A line may begin with the host thread that makes the call, `worker:`
//! (without it, `main`), and end with a label in quotes.
//!
//! | line | command |
//! |---|---|
//! | `title` any text | the program's title |
//! | `machine` NAME | the profile that its author had in mind |
//! | `stream` NAMES \[`nonblocking`, `blocking` or `per_thread`\] \[`of` THREAD\] \[`on` DEVICE\] \[`priority` INT\] | `stream`, one for each name |
//! | `device`, `pinned`, `pageable` or `managed` NAMES SIZE \[`on` DEVICE\] \[`via` VIA\] \[`on` STREAM or `home` STREAM\] \[`reuse` BUFFER\] \[`=` CONTENTS\] | `alloc` |
//! | `free` NAMES \[`via` VIA\] \[`on` STREAM\] | `free`; with a stream `free_async`, else the way it was allocated |
//! | `record_stream` BUFFER `on` STREAM | `record_stream` |
//! | `copy` SPAN `<-` SPAN `on` STREAM \[`peer`\] \[`untracked`\] \[`torch`\] | `copy`, asynchronous; of two sizes the smaller moves |
//! | `copy` SPAN `<-` SPAN `blocking` \[`on` STREAM\] … | `copy` with `sync`, through the legacy stream of the device |
//! | `memset` SPAN \[INT\] `on` STREAM, or `blocking` \[`on` STREAM\] | `memset`, of zeros when no byte is given |
//! | `kernel` \[NAME\] `on` STREAM \[`reads` SPANS\] \[`writes` SPANS\] \[`for` TIME\] \[`computes` COMPUTE\] \[`grid full`\] | `kernel`, the name being its label |
//! | `host fn` \[NAME\] `on` STREAM \[`reads` SPANS\] \[`writes` SPANS\] \[`for` TIME\] \[`computes` COMPUTE\] | `host_fn` |
//! | `read` SPAN \[`expect` CONTENTS\], `write` SPAN \[`=` CONTENTS\] | `host_read`, `host_write` |
//! | `host copy` SPAN `<-` SPAN | `host_copy` |
//! | `event` NAMES, `destroy event` NAMES, `destroy stream` NAMES | `event_create`, `event_destroy`, `stream_destroy` |
//! | `record` EVENT `on` STREAM, `wait` EVENT `on` STREAM | `record`, `wait` |
//! | `sync` STREAM, `sync event` EVENT, `sync` DEVICE or `sync device` INT | `stream_sync`, `event_sync`, `device_sync` |
//! | `query` STREAM or `query event` EVENT, then `ready` or `not ready` | `stream_query`, `event_query`, with the answer observed |
//! | `spawn` THREADS, `join` THREADS | `thread_spawn`, `thread_join` |
//! | `signal` CHANNEL, `await` CHANNEL | `signal`, `await` |
//! | `sleep` TIME | `host_sleep`, whole microseconds |
//! | `work` TIME, or `work` COST \[TIME\] | `host_work`; COST is `framework_to`, `dict_leaf` or `pin_overhead` |
//! | `capture` STREAM … `end capture` STREAM `as` GRAPH | `capture_begin`, `capture_end` |
//! | `launch` GRAPH `on` STREAM | `graph_launch` |
//! | `mark` \[NAME\] | `mark` |
//! | `repeat` NAME INT … `end` | the lines between, INT times, with NAME counting from 0 |
//!
//! | part | written |
//! |---|---|
//! | NAME | a word of letters, digits and `_ - . + @ / %` without `..`, or anything in quotes with the escapes of JSON; NAMES, SPANS: several, with commas |
//! | SIZE | bytes: `4096`, `4KB` (1000), `4MiB` (1024), `1.5GiB`; up to `TB` and `TiB` |
//! | TIME | `250ns`, `120us`, `1.5ms`, `2s` |
//! | DEVICE | `cuda:0`, or `gpu:0`; without the number, or left out, device 0 |
//! | SPAN | `d`: the whole buffer; `d[0..4096]`, `d[4KiB..]`: from a byte up to before another; `d[4 at 16, 64 every 256, 3 every 8]`: runs of 4 bytes from byte 16, 64 of them 256 bytes apart, each 3 times 8 bytes apart. A word `opaque` after it makes the bytes an upper bound |
//! | CONTENTS | `f32 fill 1`, `f64 ramp 0 0.5` (first, step), `i32 values 1 2 3`, `seed 7` |
//! | COMPUTE | `f32 fill 1`, `f32 affine 2 1` (`2 a + 1`), `f32 mul` (`a b`), `c32 mul conj` (`conj(a) b`), `f32 add`, `c32 dot`, `f32 multiple -1`, `f64 divide`, `f64 sqrt`, `f64 where 0`, `f64 guard`, `f64 guard strict`, `f32 shrink 0.5`, each as [`Func`](super::Func) says |
//! | VIA | `malloc`, `malloc_async`, `pool`, `pinned_pool`, `rawpool`; when freeing `free`, `free_async`, `pool`, `pinned_pool`, `rawpool`, `host_free`, `unregister` |
//!
//! Between `repeat i 1000` and its `end`, `{i}`, `{i%4}` or `{(i+1)*4096}` stand for integers, in names too: operators
//! `+ - * / %` and brackets, division rounding down. Loops nest up to 8 deep and unroll to at most 2,000,000 lines. They
//! are unrolled while reading; the written form has none.
//!
//! Reading keeps going after a bad line and tells of all of them (at most 50).

mod lex;
mod nearest;
mod parse;
mod quantity;
mod repeat;
mod statement;
mod write;

pub(crate) use nearest::nearest;
pub(super) use parse::{read, read_each};
pub use quantity::{size, time};
pub(super) use write::{write, write_command};
