//! Every way of copying against plain copies: odd sizes, odd addresses, nothing at all, on one thread and on several.

use super::*;

/// Numbers without pattern, the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % n
    }

    fn bytes(&mut self, n: usize) -> Vec<u8> {
        (0..n).map(|_| u8::try_from(self.below(256)).unwrap()).collect()
    }
}

const STORES: [Stores; 2] = [Stores::Plain, Stores::Streaming];

#[test]
fn copies_of_odd_sizes_at_odd_addresses_touch_what_they_should() {
    let mut random = Random(1);
    let source = random.bytes(1024);
    for stores in STORES {
        let most = if cfg!(miri) { 70 } else { 200 };
        for len in (0..most).chain([255, 256, 257, 511, 640]) {
            for (a, b) in [(0, 0), (1, 0), (0, 1), (13, 7), (63, 64), (64, 63)] {
                let mut to = vec![0xEE; 1024];
                copy(&mut to[a..a + len], &source[b..b + len], stores);
                let mut expected = vec![0xEE; 1024];
                expected[a..a + len].copy_from_slice(&source[b..b + len]);
                assert_eq!(to, expected, "{stores:?} {len} bytes to {a} from {b}");
            }
        }
    }
}

#[test]
#[should_panic(expected = "different lengths")]
fn different_lengths_are_refused() {
    copy(&mut [0; 2], &[0; 3], Stores::Streaming);
}

#[test]
#[cfg_attr(miri, ignore = "threads of rayon, which are not ours to look into")]
fn threads_copy_the_whole() {
    let mut random = Random(2);
    let source = random.bytes(PIECE * 2 + 12_345);
    for n_threads in [1, 2, 3, 5] {
        let workers = Workers::new(n_threads).unwrap();
        for len in [0, 1, LEAST - 1, 3 * LEAST + 1, PIECE - 1, PIECE, PIECE + 1, source.len()] {
            let mut to = vec![0; len];
            workers.copy(&mut to, &source[..len], Stores::Streaming);
            assert!(to == source[..len], "{n_threads} threads, {len} bytes");
        }
    }
}

/// The block as a loop would lay it out.
fn plain_gather(from: &[&[u8]], align: usize) -> Vec<u8> {
    let mut block = Vec::new();
    for tensor in from {
        block.extend_from_slice(tensor);
        block.resize(block.len().next_multiple_of(align), 0);
    }
    block
}

#[test]
#[cfg_attr(miri, ignore = "threads of rayon, which are not ours to look into")]
fn gather_and_scatter_are_what_a_loop_does_and_each_other_s_inverse() {
    let mut random = Random(3);
    let all = random.bytes(3 << 20);
    for round in 0..40 {
        let workers = Workers::new(1 + round % 3).unwrap();
        let align = [1, 2, 512, 4096, 7][round % 5];
        let most = [1, 40, 5_000, 300_000][round % 4];
        let n = if most > 100_000 { random.below(9) } else { random.below(200) };
        let tensors: Vec<&[u8]> = (0..n)
            .map(|_| {
                // Some are empty.
                let len = if random.below(5) == 0 { 0 } else { random.below(most + 1) };
                let at = random.below(all.len() - len);
                &all[at..at + len]
            })
            .collect();
        let packing = Packing::new(tensors.iter().map(|t| t.len()), align).unwrap();
        let expected = plain_gather(&tensors, align);
        let stores = STORES[round % 2];
        let mut block = vec![0; packing.bytes()];
        workers.gather(&tensors, &packing, &mut block, stores);
        assert!(block == expected, "round {round}: {n} tensors of {most} bytes at multiples of {align}");
        let mut back: Vec<Vec<u8>> = tensors.iter().map(|t| vec![0xEE; t.len()]).collect();
        let mut to: Vec<&mut [u8]> = back.iter_mut().map(Vec::as_mut_slice).collect();
        workers.scatter(&block, &packing, &mut to, stores);
        assert!(back.iter().zip(&tensors).all(|(a, b)| a == b), "round {round}");
    }
}

#[test]
fn any_piece_of_a_block_is_gathered_by_itself() {
    let mut random = Random(4);
    let tensors: Vec<Vec<u8>> = [10, 0, 0, 513, 1, 0, 90].map(|n| random.bytes(n)).into();
    let tensors: Vec<&[u8]> = tensors.iter().map(Vec::as_slice).collect();
    let packing = Packing::new(tensors.iter().map(|t| t.len()), 16).unwrap();
    let expected = plain_gather(&tensors, 16);
    for at in 0..packing.bytes() {
        let len = random.below(packing.bytes() - at + 1);
        let mut piece = vec![0; len];
        packing.gather(&tensors, at, &mut piece, Stores::Plain);
        assert_eq!(piece, expected[at..at + len], "{len} bytes at {at}");
    }
}

#[test]
#[cfg_attr(miri, ignore = "threads of rayon, which are not ours to look into")]
fn a_packing_of_nothing_and_one_that_is_too_large() {
    let nothing = Packing::new([], 512).unwrap();
    assert_eq!((nothing.bytes(), nothing.places().count()), (0, 0));
    Workers::new(2).unwrap().gather(&[], &nothing, &mut [], Stores::Plain);
    assert_eq!(Packing::new([usize::MAX], 512), Err(TooLarge));
    assert_eq!(Packing::new([usize::MAX - 600, 1000], 1), Err(TooLarge));
}

#[test]
#[cfg_attr(miri, ignore = "threads of rayon, which are not ours to look into")]
fn a_panicking_job_ends_after_the_others_and_the_threads_stay() {
    let workers = Workers::new(3).unwrap();
    for (is_apart, planted) in [(false, 0), (false, 1), (true, 0), (true, 1), (true, 2)] {
        let done = AtomicUsize::new(0);
        let job = |k: usize| {
            assert!(k != planted, "planted");
            done.fetch_add(1, Ordering::SeqCst);
        };
        let ran = std::panic::AssertUnwindSafe(|| match is_apart {
            true => workers.run_apart(3, &job),
            false => workers.run(3, &job),
        });
        let payload = std::panic::catch_unwind(ran).unwrap_err();
        assert_eq!(payload.downcast_ref::<&str>(), Some(&"planted"), "{is_apart}, {planted}");
        assert_eq!(done.load(Ordering::SeqCst), 2);
    }
    let mut to = vec![0; 3 * PIECE];
    workers.copy(&mut to, &vec![7; 3 * PIECE], Stores::Plain);
    assert!(to.iter().all(|&b| b == 7));
}

#[test]
fn a_thread_on_the_lookout_is_let_go_by_the_next_call() {
    let calls = AtomicUsize::new(7);
    // By a call that came meanwhile, at once; by none, when its time is over.
    look_out(&calls, 6);
    look_out(&calls, 7);
}

/// Calls of several callers at once, close together, so that they meet threads on the lookout for another's.
#[test]
#[cfg_attr(miri, ignore = "threads of rayon, which are not ours to look into")]
fn calls_in_a_row_from_several_threads_are_all_done() {
    let workers = Workers::new(3).unwrap();
    let done = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..200 {
                    workers.run(3, &|_| {
                        done.fetch_add(1, Ordering::Relaxed);
                    });
                }
            });
        }
    });
    assert_eq!(done.load(Ordering::Relaxed), 4 * 200 * 3);
}

/// The pool's one thread waits for others of an engine's, and does not take its own pool's next task for that.
#[test]
#[cfg_attr(miri, ignore = "threads of rayon, which are not ours to look into")]
fn a_caller_from_a_pool_takes_none_of_its_tasks_meanwhile() {
    let workers = Workers::new(3).unwrap();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let (begun, most, done) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    pool.scope(|scope| {
        for _ in 0..10 {
            scope.spawn(|_| {
                most.fetch_max(begun.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                workers.run(3, &|k| {
                    std::thread::sleep(Duration::from_millis(if k == 0 { 0 } else { 2 }));
                    done.fetch_add(1, Ordering::SeqCst);
                });
                begun.fetch_sub(1, Ordering::SeqCst);
            });
        }
    });
    assert_eq!((most.into_inner(), done.into_inner()), (1, 30));
}

#[test]
#[cfg_attr(miri, ignore = "threads of rayon, which are not ours to look into")]
fn jobs_apart_are_on_no_pool_s_thread_whoever_calls() {
    let workers = Workers::new(3).unwrap();
    let all = || {
        let seen = Mutex::new(Vec::new());
        workers.run_apart(5, &|k| {
            assert!(rayon::current_thread_index().is_none());
            seen.lock().unwrap().push(k);
        });
        let mut seen = seen.into_inner().unwrap();
        seen.sort_unstable();
        assert_eq!(seen, [0, 1, 2]);
    };
    all();
    rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap().install(all);
}
