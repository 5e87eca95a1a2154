//! Lesson 4. Each part stands for the cell that it names; its answer must hold the words behind the name.

// cell c14: right:
let guess = 24;
check_break_even(guess, mib(64), &machine)

// cell c31: right:
check_loader(r#"machine tutorial-ci
repeat i 6
    pageable b{i} 16MB
    pinned  p{i} 16MB via pinned_pool
    device  d{i} 16MB
    write   b{i}
end

spawn   pin
repeat i 6
    pin: work pin_overhead
    pin: host copy p{i} <- b{i}
    pin: signal ready{i}
end
repeat i 6
    await   ready{i}
    work    framework_to
    copy    d{i} <- p{i} on 0
    kernel  "step {i}" on 0 reads d{i} for 4ms
    sync    0
end
"#)
