//! Lesson 1. Each part stands for the cell that it names; its answer must hold the words behind the name.

// cell c16: right:
let mut p = Program::new();
p.machine = Some("h200-pcie5".to_owned());
let compute = p.stream("compute");
let back = p.stream("back");
let d = p.device(0, "d", mib(4));
let y = p.pinned("y", mib(4));
let done = p.event("done");

p.kernel("scale").reads(d).writes(d).takes(us(60)).on(compute);
p.record(done, compute);
p.wait(back, done);
p.copy(y, d).on(back);
p.sync(back);
p.host_read(y);

check_result_back(&p)
