//! Lesson 9. Each part stands for the cell that it names; its answer must hold the words behind the name.

// cell c09: right:
let times: Vec<f64> = sizes.iter().map(|&bytes| {
    let text = format!("stream s\npinned x {}\ndevice d {}\nmark a\ncopy d <- x on s\nsync s\nmark b", bytes.0, bytes.0);
    let run = sim::run(&Program::from_text(&text).unwrap(), &here.machine()).unwrap();
    run.between("a", "b").unwrap().0 as f64
}).collect();
let r = (sizes[3].0 - sizes[0].0) as f64 / (times[3] - times[0]);
let t0 = Nanos((times[0] - sizes[0].0 as f64 / r) as i64);
check_line(&here, &sizes, t0, r)

// cell c17: right: S4
let small = Request::many(Route::Up, HostMemory::Pageable, 1000, Bytes(4_000_000));
check_way(&here, &small, "S4")

// cell c19: right:
check_run(&here, r#"stream  load, work
event   loaded
pinned  x 1MiB = f32 fill 2
pinned  y 1MiB = f32 fill 0
device  d 1MiB

copy    d <- x on load
record  loaded on load
wait    loaded on work
kernel  triple on work reads d writes d for 20us computes f32 affine 3 0
copy    y <- d on work
sync    work
read    y expect f32 fill 6
"#)
