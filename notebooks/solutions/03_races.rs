//! Lesson 3. Each part stands for the cell that it names; its answer must hold the words behind the name.

// cell c07: right:
check_read_back(r#"machine tutorial-ci
stream  s
device  d 8MB = f64 ramp 1 1
pinned  host 8MB = f64 fill 0

copy    host <- d on s
sync    s
read    host expect f64 ramp 1 1
"#)

// cell c17: right:
check_refill(r#"machine h200-pcie5
stream  s
pinned  x 4MiB = f32 fill 1
pinned  y 4MiB = f32 fill 0
device  d 4MiB
event   read_done

copy    d <- x on s
record  read_done on s
kernel  double on s reads d writes d for 400us computes f32 affine 2 0
copy    y <- d on s
sync    event read_done
write   x = f32 fill 5
copy    d <- x on s
kernel  double on s reads d writes d for 400us computes f32 affine 2 0
sync    s
read    y expect f32 fill 2
"#)

// cell c33: right:
check_pipeline(r#"machine h200-pcie5
stream  load, work, store
device  d0, d1 1MiB
event   loaded0, loaded1, worked0, worked1, stored0, stored1
repeat i 6
    pinned  x{i} 1MiB = f32 fill {i+1}
    pinned  y{i} 1MiB = f32 fill 0
end

repeat i 6
    wait    stored{i%2} on load
    copy    d{i%2} <- x{i} on load
    record  loaded{i%2} on load

    wait    loaded{i%2} on work
    kernel  double on work reads d{i%2} writes d{i%2} for 60us computes f32 affine 2 0
    record  worked{i%2} on work

    wait    worked{i%2} on store
    copy    y{i} <- d{i%2} on store
    record  stored{i%2} on store
end

sync    store
repeat i 6
    read    y{i} expect f32 fill {2*(i+1)}
end
"#)

// cell c35: right:
check_events(r#"machine h200-pcie5
stream  load, work, store
device  a, b 4MiB
pinned  x 4MiB = f32 fill 1
pinned  last 4MiB
pinned  y 4MiB = f32 fill 0
event   there, done, worked

copy    a <- x on load
record  there on load              # the item is there
copy    last <- b on store         # meanwhile the last result goes out
record  done on store              # and so is that, says an event of its own

wait    there on work
kernel  double on work reads a writes a for 60us computes f32 affine 2 0
record  worked on work
wait    worked on store
copy    y <- a on store
sync    store
read    y expect f32 fill 2
"#)

// cell c37: right:
let freed = r#"machine h200-pcie5
stream  work, store
pinned  y 4MiB = f32 fill 0
device  t 4MiB via malloc_async on work
event   made, stored

kernel  make on work writes t for 60us computes f32 fill 3
record  made on work
wait    made on store
copy    y <- t on store
record  stored on store
wait    stored on work
free    t via free_async on work
sync    store
read    y expect f32 fill 3
"#;
check_free(freed)

// cell c40: right:
check_pool(r#"machine h200-pcie5
stream  main_stream, side
device  t 4MiB via pool home main_stream
pinned  y 4MiB = f32 fill 0
event   made

kernel  make on main_stream writes t for 60us computes f32 fill 3
record  made on main_stream
wait    made on side
copy    y <- t on side                                  # another stream uses t
record_stream t on side
free    t via pool                                      # del t
device  u 4MiB via pool home main_stream reuse t        # the block is handed out again
kernel  next on main_stream writes u for 60us computes f32 fill 9
sync    side
read    y expect f32 fill 3
"#)
