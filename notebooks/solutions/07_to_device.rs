//! Lesson 7. Each part stands for the cell that it names; its answer must hold the words behind the name.

// cell c07: right: 3 transfers
check_moves(chain![to(cuda(0)), &w0, to(cuda(1)), &w1, to(cpu())], &a, &[cuda(0), cuda(1)], 3)

// cell c20: right: 4 transfers
let far = chain![to(cuda(1)), &w1, to(cpu())]?;
let twice = Operator::scale(2.0, images.on(cuda(0)))?;
let three = (chain![to(cuda(0)), &w0, to(cpu())]? + far + chain![to(cuda(0)), twice, to(cpu())]?)?;
check_moves(three.simplify(), &three, &[cuda(0), cuda(1)], 4)

// cell c31: right: 24 transfers
check_overlapped(Planning::new().ahead(1).plan(&a.h().tiles([("b", 1)])?.joined()?), &a.h(), mib(2), &machine)
