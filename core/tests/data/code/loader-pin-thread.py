# a training loop whose loader pins the batches in a thread
# written for tutorial-ci
# Kernels stand for theirs: they take the time, not the bytes.
import queue
import threading
import time
import torch

def kernel(us):
    torch.cuda._sleep(round(us * torch.cuda.clock_rate()))  # megahertz are cycles in a microsecond

def busy(us):
    end = time.perf_counter() + us * 1e-6
    while time.perf_counter() < end:
        pass

ready0 = queue.Queue()
ready1 = queue.Queue()
ready2 = queue.Queue()
ready3 = queue.Queue()
ready4 = queue.Queue()
ready5 = queue.Queue()
ready6 = queue.Queue()
ready7 = queue.Queue()
ready8 = queue.Queue()
ready9 = queue.Queue()
ready10 = queue.Queue()
ready11 = queue.Queue()
ready12 = queue.Queue()
ready13 = queue.Queue()
ready14 = queue.Queue()
ready15 = queue.Queue()
ready16 = queue.Queue()
ready17 = queue.Queue()
ready18 = queue.Queue()
ready19 = queue.Queue()
b0 = torch.empty(16000000, dtype=torch.uint8)
p0 = torch.empty(16000000, dtype=torch.uint8, pin_memory=True)
d0 = torch.empty(16000000, dtype=torch.uint8, device="cuda:0")
b0.fill_(1)
b1 = torch.empty(16000000, dtype=torch.uint8)
p1 = torch.empty(16000000, dtype=torch.uint8, pin_memory=True)
d1 = torch.empty(16000000, dtype=torch.uint8, device="cuda:0")
b1.fill_(1)
b2 = torch.empty(16000000, dtype=torch.uint8)
p2 = torch.empty(16000000, dtype=torch.uint8, pin_memory=True)
d2 = torch.empty(16000000, dtype=torch.uint8, device="cuda:0")
b2.fill_(1)
b3 = torch.empty(16000000, dtype=torch.uint8)
p3 = torch.empty(16000000, dtype=torch.uint8, pin_memory=True)
d3 = torch.empty(16000000, dtype=torch.uint8, device="cuda:0")
b3.fill_(1)
b4 = torch.empty(16000000, dtype=torch.uint8)
p4 = torch.empty(16000000, dtype=torch.uint8, pin_memory=True)
d4 = torch.empty(16000000, dtype=torch.uint8, device="cuda:0")
b4.fill_(1)
b5 = torch.empty(16000000, dtype=torch.uint8)
p5 = torch.empty(16000000, dtype=torch.uint8, pin_memory=True)
d5 = torch.empty(16000000, dtype=torch.uint8, device="cuda:0")
b5.fill_(1)
b6 = torch.empty(16000000, dtype=torch.uint8)
p6 = torch.empty(16000000, dtype=torch.uint8, pin_memory=True)
d6 = torch.empty(16000000, dtype=torch.uint8, device="cuda:0")
b6.fill_(1)
b7 = torch.empty(16000000, dtype=torch.uint8)
p7 = torch.empty(16000000, dtype=torch.uint8, pin_memory=True)
d7 = torch.empty(16000000, dtype=torch.uint8, device="cuda:0")
b7.fill_(1)
b8 = torch.empty(16000000, dtype=torch.uint8)
p8 = torch.empty(16000000, dtype=torch.uint8, pin_memory=True)
d8 = torch.empty(16000000, dtype=torch.uint8, device="cuda:0")
b8.fill_(1)
b9 = torch.empty(16000000, dtype=torch.uint8)
p9 = torch.empty(16000000, dtype=torch.uint8, pin_memory=True)
d9 = torch.empty(16000000, dtype=torch.uint8, device="cuda:0")
b9.fill_(1)
b10 = torch.empty(16000000, dtype=torch.uint8)
p10 = torch.empty(16000000, dtype=torch.uint8, pin_memory=True)
d10 = torch.empty(16000000, dtype=torch.uint8, device="cuda:0")
b10.fill_(1)
b11 = torch.empty(16000000, dtype=torch.uint8)
p11 = torch.empty(16000000, dtype=torch.uint8, pin_memory=True)
d11 = torch.empty(16000000, dtype=torch.uint8, device="cuda:0")
b11.fill_(1)
b12 = torch.empty(16000000, dtype=torch.uint8)
p12 = torch.empty(16000000, dtype=torch.uint8, pin_memory=True)
d12 = torch.empty(16000000, dtype=torch.uint8, device="cuda:0")
b12.fill_(1)
b13 = torch.empty(16000000, dtype=torch.uint8)
p13 = torch.empty(16000000, dtype=torch.uint8, pin_memory=True)
d13 = torch.empty(16000000, dtype=torch.uint8, device="cuda:0")
b13.fill_(1)
b14 = torch.empty(16000000, dtype=torch.uint8)
p14 = torch.empty(16000000, dtype=torch.uint8, pin_memory=True)
d14 = torch.empty(16000000, dtype=torch.uint8, device="cuda:0")
b14.fill_(1)
b15 = torch.empty(16000000, dtype=torch.uint8)
p15 = torch.empty(16000000, dtype=torch.uint8, pin_memory=True)
d15 = torch.empty(16000000, dtype=torch.uint8, device="cuda:0")
b15.fill_(1)
b16 = torch.empty(16000000, dtype=torch.uint8)
p16 = torch.empty(16000000, dtype=torch.uint8, pin_memory=True)
d16 = torch.empty(16000000, dtype=torch.uint8, device="cuda:0")
b16.fill_(1)
b17 = torch.empty(16000000, dtype=torch.uint8)
p17 = torch.empty(16000000, dtype=torch.uint8, pin_memory=True)
d17 = torch.empty(16000000, dtype=torch.uint8, device="cuda:0")
b17.fill_(1)
b18 = torch.empty(16000000, dtype=torch.uint8)
p18 = torch.empty(16000000, dtype=torch.uint8, pin_memory=True)
d18 = torch.empty(16000000, dtype=torch.uint8, device="cuda:0")
b18.fill_(1)
b19 = torch.empty(16000000, dtype=torch.uint8)
p19 = torch.empty(16000000, dtype=torch.uint8, pin_memory=True)
d19 = torch.empty(16000000, dtype=torch.uint8, device="cuda:0")
b19.fill_(1)
# no PyTorch form: mark begin
def pin_calls():
    busy(0)  # work pin_overhead
    p0.copy_(b0)
    ready0.put(None)
    busy(0)  # work pin_overhead
    p1.copy_(b1)
    ready1.put(None)
    busy(0)  # work pin_overhead
    p2.copy_(b2)
    ready2.put(None)
    busy(0)  # work pin_overhead
    p3.copy_(b3)
    ready3.put(None)
    busy(0)  # work pin_overhead
    p4.copy_(b4)
    ready4.put(None)
    busy(0)  # work pin_overhead
    p5.copy_(b5)
    ready5.put(None)
    busy(0)  # work pin_overhead
    p6.copy_(b6)
    ready6.put(None)
    busy(0)  # work pin_overhead
    p7.copy_(b7)
    ready7.put(None)
    busy(0)  # work pin_overhead
    p8.copy_(b8)
    ready8.put(None)
    busy(0)  # work pin_overhead
    p9.copy_(b9)
    ready9.put(None)
    busy(0)  # work pin_overhead
    p10.copy_(b10)
    ready10.put(None)
    busy(0)  # work pin_overhead
    p11.copy_(b11)
    ready11.put(None)
    busy(0)  # work pin_overhead
    p12.copy_(b12)
    ready12.put(None)
    busy(0)  # work pin_overhead
    p13.copy_(b13)
    ready13.put(None)
    busy(0)  # work pin_overhead
    p14.copy_(b14)
    ready14.put(None)
    busy(0)  # work pin_overhead
    p15.copy_(b15)
    ready15.put(None)
    busy(0)  # work pin_overhead
    p16.copy_(b16)
    ready16.put(None)
    busy(0)  # work pin_overhead
    p17.copy_(b17)
    ready17.put(None)
    busy(0)  # work pin_overhead
    p18.copy_(b18)
    ready18.put(None)
    busy(0)  # work pin_overhead
    p19.copy_(b19)
    ready19.put(None)
pin = threading.Thread(target=pin_calls)
pin.start()
ready0.get()
busy(0)  # work framework_to
d0.copy_(p0, non_blocking=True)
kernel(4000)  # kernel "step 0" on 0 reads d0 for 4ms
torch.cuda.default_stream(0).synchronize()
ready1.get()
busy(0)  # work framework_to
d1.copy_(p1, non_blocking=True)
kernel(4000)  # kernel "step 1" on 0 reads d1 for 4ms
torch.cuda.default_stream(0).synchronize()
ready2.get()
busy(0)  # work framework_to
d2.copy_(p2, non_blocking=True)
kernel(4000)  # kernel "step 2" on 0 reads d2 for 4ms
torch.cuda.default_stream(0).synchronize()
ready3.get()
busy(0)  # work framework_to
d3.copy_(p3, non_blocking=True)
kernel(4000)  # kernel "step 3" on 0 reads d3 for 4ms
torch.cuda.default_stream(0).synchronize()
ready4.get()
busy(0)  # work framework_to
d4.copy_(p4, non_blocking=True)
kernel(4000)  # kernel "step 4" on 0 reads d4 for 4ms
torch.cuda.default_stream(0).synchronize()
ready5.get()
busy(0)  # work framework_to
d5.copy_(p5, non_blocking=True)
kernel(4000)  # kernel "step 5" on 0 reads d5 for 4ms
torch.cuda.default_stream(0).synchronize()
ready6.get()
busy(0)  # work framework_to
d6.copy_(p6, non_blocking=True)
kernel(4000)  # kernel "step 6" on 0 reads d6 for 4ms
torch.cuda.default_stream(0).synchronize()
ready7.get()
busy(0)  # work framework_to
d7.copy_(p7, non_blocking=True)
kernel(4000)  # kernel "step 7" on 0 reads d7 for 4ms
torch.cuda.default_stream(0).synchronize()
ready8.get()
busy(0)  # work framework_to
d8.copy_(p8, non_blocking=True)
kernel(4000)  # kernel "step 8" on 0 reads d8 for 4ms
torch.cuda.default_stream(0).synchronize()
ready9.get()
busy(0)  # work framework_to
d9.copy_(p9, non_blocking=True)
kernel(4000)  # kernel "step 9" on 0 reads d9 for 4ms
torch.cuda.default_stream(0).synchronize()
ready10.get()
busy(0)  # work framework_to
d10.copy_(p10, non_blocking=True)
kernel(4000)  # kernel "step 10" on 0 reads d10 for 4ms
torch.cuda.default_stream(0).synchronize()
ready11.get()
busy(0)  # work framework_to
d11.copy_(p11, non_blocking=True)
kernel(4000)  # kernel "step 11" on 0 reads d11 for 4ms
torch.cuda.default_stream(0).synchronize()
ready12.get()
busy(0)  # work framework_to
d12.copy_(p12, non_blocking=True)
kernel(4000)  # kernel "step 12" on 0 reads d12 for 4ms
torch.cuda.default_stream(0).synchronize()
ready13.get()
busy(0)  # work framework_to
d13.copy_(p13, non_blocking=True)
kernel(4000)  # kernel "step 13" on 0 reads d13 for 4ms
torch.cuda.default_stream(0).synchronize()
ready14.get()
busy(0)  # work framework_to
d14.copy_(p14, non_blocking=True)
kernel(4000)  # kernel "step 14" on 0 reads d14 for 4ms
torch.cuda.default_stream(0).synchronize()
ready15.get()
busy(0)  # work framework_to
d15.copy_(p15, non_blocking=True)
kernel(4000)  # kernel "step 15" on 0 reads d15 for 4ms
torch.cuda.default_stream(0).synchronize()
ready16.get()
busy(0)  # work framework_to
d16.copy_(p16, non_blocking=True)
kernel(4000)  # kernel "step 16" on 0 reads d16 for 4ms
torch.cuda.default_stream(0).synchronize()
ready17.get()
busy(0)  # work framework_to
d17.copy_(p17, non_blocking=True)
kernel(4000)  # kernel "step 17" on 0 reads d17 for 4ms
torch.cuda.default_stream(0).synchronize()
ready18.get()
busy(0)  # work framework_to
d18.copy_(p18, non_blocking=True)
kernel(4000)  # kernel "step 18" on 0 reads d18 for 4ms
torch.cuda.default_stream(0).synchronize()
ready19.get()
busy(0)  # work framework_to
d19.copy_(p19, non_blocking=True)
kernel(4000)  # kernel "step 19" on 0 reads d19 for 4ms
torch.cuda.default_stream(0).synchronize()
# no PyTorch form: mark "end"
