//! Lesson 8. Each part stands for the cell that it names; its answer must hold the words behind the name.

// cell c13: right:
check_holder(&recorded, "cudaDeviceSynchronize")

// cell c19: right:
check_change(&recorded, "pin:*")

// cell c23: right:
let steps = r#"machine tutorial-ci
repeat i 2
    pageable batch{i} 12MiB
    device   x{i} 12MiB
    pageable seen{i} 4KiB = f32 fill 0
    device   loss{i} 4KiB = f32 fill 0
    repeat k 6
        pageable small{i}_{k} 4KiB
        device   w{i}_{k} 4KiB
    end
end

repeat i 2
    copy    x{i} <- batch{i} on 0                  # batch.to("cuda")
    sync    0
    repeat k 6
        copy    w{i}_{k} <- small{i}_{k} on 0      # weight.to("cuda"), one by one
        sync    0
    end
    kernel  forward on 0 reads x{i}, w{i}_0, w{i}_1, w{i}_2, w{i}_3, w{i}_4, w{i}_5 writes loss{i} for 820us computes f32 fill 2
    copy    seen{i} <- loss{i} on 0                # loss.item()
    sync    0
    read    seen{i} expect f32 fill 2
    kernel  backward on 0 reads x{i}, loss{i} for 1640us
    sync    0                                      # torch.cuda.synchronize(), to take the time
end
"#;
let mended = r#"machine tutorial-ci
stream  load
repeat i 2
    pinned   batch{i} 12MiB
    device   x{i} 12MiB
    pinned   seen{i} 4KiB = f32 fill 0
    device   loss{i} 4KiB = f32 fill 0
    pinned   small{i} 24KiB                        # six in one
    device   w{i} 24KiB
    event    there{i}
end

repeat i 2
    copy    x{i} <- batch{i} on load
    copy    w{i} <- small{i} on load
    record  there{i} on load
end
repeat i 2
    wait    there{i} on 0
    kernel  forward on 0 reads x{i}, w{i} writes loss{i} for 820us computes f32 fill 2
    copy    seen{i} <- loss{i} on 0
    kernel  backward on 0 reads x{i}, loss{i} for 1640us
end
sync    0
repeat i 2
    read    seen{i} expect f32 fill 2
end
"#;
check_steps(steps, mended)

// cell c27: right:
check_memory(&snapshot, 54)
