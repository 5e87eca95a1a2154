//! Lesson 5. Each part stands for the cell that it names; its answer must hold the words behind the name.

// cell c13: right:
check_side_copy(r#"machine h200-pcie5
stream  side
pinned  batch 16MiB
device  x, y 16MiB
event   there

kernel  step on 0 reads y writes y for 400us
copy    x <- batch on side
record  there on side
wait    there on 0
kernel  next on 0 reads x for 60us
sync    0
"#)

// cell c31: right:
let per_item = Arrangement::PerItem(IssueOrder::DepthFirst);
let asked = Pipeline { work: us(300), ..Pipeline::new(per_item, 24, mib(16)) };

let answer = Pipeline { arrangement: Arrangement::PerStage, in_flight: Some(2), ..asked };
check_strategy(answer, &asked, mib(64), us(9_000), &machine)

// cell c35: right:
check_order(r#"machine h100-pcie5
stream  copies, compute
repeat i 6
    pinned  in{i}, out{i} 32MiB
    device  x{i}, y{i} 32MiB
end

repeat i 6
    copy    x{i} <- in{i} on copies
    record  up{i} on copies

    wait    up{i} on compute
    kernel  "work {i}" on compute reads x{i} writes y{i} for 600us grid full
    record  done{i} on compute
end
repeat i 6
    wait    done{i} on copies
    copy    out{i} <- y{i} on copies
end
sync    copies
"#)

// cell c39: right:
check_moved(r#"machine h200-pcie5
stream  s
pageable weights 1MiB = f32 fill 3
device  w 1MiB
repeat i 4
    pageable batch{i} 1MiB = f32 fill {i+1}
    pinned   p{i} 1MiB via pinned_pool
    device   x{i} 1MiB
end

copy      w <- weights on s
repeat i 4
    host copy p{i} <- batch{i}
    copy      x{i} <- p{i} on s
    kernel    "step {i}" on s reads w, x{i} writes x{i} for 200us computes f32 add
end
sync    s
"#)
