# pinned source, overwritten in flight
# written for tutorial-ci
# Kernels stand for theirs: they take the time, not the bytes.
import time
import torch

def kernel(us):
    torch.cuda._sleep(round(us * torch.cuda.clock_rate()))  # megahertz are cycles in a microsecond

def busy(us):
    end = time.perf_counter() + us * 1e-6
    while time.perf_counter() < end:
        pass

source = torch.full((1048576,), 1.0, dtype=torch.float32, pin_memory=True).view(torch.uint8)
check = torch.full((1048576,), 0.0, dtype=torch.float32, pin_memory=True).view(torch.uint8)
result = torch.empty(4194304, dtype=torch.uint8, device="cuda:0")
kernel(1000)  # kernel "the step before" on 0 for 1ms
busy(0)  # work framework_to
result.copy_(source, non_blocking=True)
source.view(torch.float32).fill_(0.0)
check.copy_(result, non_blocking=True)
torch.cuda.default_stream(0).synchronize()
assert (check.view(torch.float32) == 1.0).all()
