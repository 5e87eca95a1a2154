// Stands for CUDA, for the C library's memory and for threads, where programs written in CUDA C++ are run.
//
// Each call is one line of output: the thread that calls, its device, the call, and what it was given. One thread runs at a
// time; after each call, and wherever one waits, the next is drawn, so that a seed names one interleaving.
#pragma once
// What the texts include, before some of its names become those below.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <latch>
#include <map>
#include <mutex>
#include <random>
#include <semaphore>
#include <thread>
#include <vector>

namespace fake {

// -- who runs ---------------------------------------------------------------------------------------------------------

struct Thread {
    int number;
    int device = 0;
    bool is_done = false;
    std::condition_variable turn;
};

// Thrown at whoever calls after the run was given up.
struct Over {};

inline std::mutex lock;
inline std::mt19937 drawn;
inline std::vector<Thread *> alive;
inline Thread *running;
inline thread_local Thread *self;
inline bool is_over;
inline size_t n_waits, n_threads; // waits since something happened

inline void give_up(const char *why) {
    std::lock_guard held(lock);
    std::printf("%d %d %s\n", self->number, self->device, why);
    is_over = true;
    for (Thread *thread : alive) thread->turn.notify_one();
    throw Over();
}

// Any thread may go on.
inline void yield() {
    std::unique_lock held(lock);
    running = alive[drawn() % alive.size()];
    if (running != self) {
        running->turn.notify_one();
        self->turn.wait(held, [] { return running == self || is_over; });
    }
    if (is_over) throw Over();
}

template <class Is> void wait_until(Is is_ready) {
    for (yield(); !is_ready(); yield())
        if (++n_waits > 400 * alive.size()) give_up("deadlock");
    n_waits = 0;
}

// -- what is said -----------------------------------------------------------------------------------------------------

struct Handle {
    char kind;
    int number;
};

struct Block {
    size_t size;
    int number;
};

// Blocks by where they would be: nothing of them is read or written.
inline std::map<size_t, Block> blocks;
inline size_t n_handles, end_of_blocks;

struct Bytes {
    const void *from;
    size_t width, pitch = 0, height = 1;
};

inline void print(const char *word) { std::printf(" %s", word); }
inline void print(long long number) { std::printf(" %lld", number); }
inline void print(Handle handle) { std::printf(" %c%d", handle.kind, handle.number); }
// The block and its bytes in order, as runs without gaps: `b2 0+4,8+4`.
inline void print(Bytes bytes) {
    auto block = blocks.upper_bound(reinterpret_cast<size_t>(bytes.from));
    size_t from = block == blocks.begin() ? 0 : reinterpret_cast<size_t>(bytes.from) - (--block)->first;
    if (block == blocks.end() || from > block->second.size) return print("nowhere");
    print(Handle{'b', block->second.number});
    size_t n = bytes.width ? bytes.height : 0, length = bytes.width;
    if (n == 0) print("-");
    for (size_t row = 0, begin = from; row < n; row++) {
        bool is_last = row + 1 == n;
        if (!is_last && bytes.pitch == bytes.width) {
            length += bytes.width;
            continue;
        }
        std::printf("%s%zu+%zu", begin == from ? " " : ",", begin, length);
        begin = from + (row + 1) * bytes.pitch;
        length = bytes.width;
    }
}
inline void print(const void *block) {
    auto found = blocks.find(reinterpret_cast<size_t>(block));
    found == blocks.end() ? print("nowhere") : print(Handle{'b', found->second.number});
}

template <class... Words> void say(const Words &...words) {
    if (is_over) throw Over();
    std::printf("%d %d", self->number, self->device);
    (print(words), ...);
    std::puts("");
    n_waits = 0;
    yield();
    n_waits = 0;
}

inline Handle made(char kind) { return {kind, static_cast<int>(++n_handles)}; }

// -- threads and what they wait for -----------------------------------------------------------------------------------

class Jthread {
    Thread *thread = nullptr;
    std::thread runs;

public:
    Jthread() {}
    template <class Calls> explicit Jthread(Calls calls) {
        thread = new Thread{static_cast<int>(++n_threads)};
        say("spawn", thread->number);
        {
            std::lock_guard held(lock);
            alive.push_back(thread);
        }
        runs = std::thread([mine = thread, calls] {
            self = mine;
            try {
                {
                    std::unique_lock held(lock);
                    mine->turn.wait(held, [mine] { return running == mine || is_over; });
                }
                if (!is_over) calls();
            } catch (Over) {
            }
            std::lock_guard held(lock);
            mine->is_done = true;
            n_waits = 0;
            std::erase(alive, mine);
            running = alive[drawn() % alive.size()];
            running->turn.notify_one();
        });
    }
    Jthread &operator=(Jthread &&other) {
        std::swap(thread, other.thread);
        std::swap(runs, other.runs);
        return *this;
    }
    void join() {
        if (!thread) give_up("joins what does not run");
        int number = thread->number;
        end();
        say("join", number);
    }
    void end() {
        wait_until([this] { return thread->is_done; });
        runs.join();
        delete thread;
        thread = nullptr;
    }
    ~Jthread() {
        if (!thread) return;
        try {
            end();
        } catch (Over) {
            runs.join();
        }
    }
};

// Whoever waits for a turn waits for a call, which is said.
struct Latch {
    int count;
    explicit Latch(int n) : count(n) {}
    void count_down() { count--; }
    void wait() { wait_until([this] { return count <= 0; }); }
};

template <int = 0> struct Semaphore {
    int count;
    Handle handle = made('c');
    explicit Semaphore(int n) : count(n) {}
    void release() {
        count++;
        say("put", handle);
    }
    void acquire() {
        wait_until([this] { return count > 0; });
        count--;
        say("get", handle);
    }
};

template <class Number> struct Atomic {
    Number count;
    Handle handle = made('c');
    explicit Atomic(Number n) : count(n) {}
    void operator++(int) {
        count++;
        say("raise", handle);
    }
    operator Number() {
        Number seen = count;
        say("seen", handle, seen);
        return seen;
    }
    void notify_all() {}
    void wait(Number old) { wait_until([this, old] { return count != old; }); }
};

inline void sleep_for(std::chrono::microseconds us) { say("sleep", us.count()); }

// -- memory -----------------------------------------------------------------------------------------------------------

template <class... Words> char *block(size_t n, const char *call, const Words &...words) {
    size_t at = end_of_blocks += 4096;
    end_of_blocks += n;
    Handle handle = made('b');
    blocks[at] = {n, handle.number};
    say(call, handle, n, words...);
    return reinterpret_cast<char *>(at);
}

inline void busy(long long ns) { say("busy", ns); }
inline void host_read(const char *at) { say("host_read", Bytes{at, 1}); }
inline void host_reads_none(const char *at) { say("host_read", Bytes{at, 0}); }
inline void no_form(const char *command) { say("no_form", command); }

} // namespace fake

// -- CUDA -------------------------------------------------------------------------------------------------------------

// Number 0 is the default stream, and -1 what nobody made.
template <char KIND> struct Of {
    int number = -1;
    Of() {}
    Of(int n) : number(n) {}
    operator fake::Handle() const { return {KIND, number}; }
};
using cudaStream_t = Of<'s'>;
using cudaEvent_t = Of<'e'>;
using cudaGraph_t = Of<'g'>;
using cudaGraphExec_t = Of<'g'>;
using cudaError_t = int;
enum { cudaStreamDefault, cudaStreamNonBlocking };
enum { cudaSuccess, cudaErrorNotReady = 600 };
enum { cudaEventDisableTiming = 2, cudaHostRegisterDefault = 0 };
enum { cudaStreamCaptureModeGlobal, cudaStreamCaptureModeRelaxed = 2 };
enum cudaMemcpyKind { cudaMemcpyHostToHost, cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice };

inline const char *named(cudaMemcpyKind kind) {
    const char *names[] = {"HtoH", "HtoD", "DtoH", "DtoD"};
    return names[kind];
}
template <char KIND> fake::Handle as_handle(Of<KIND> of) { return of; }
using fake::Bytes, fake::say, fake::busy, fake::host_read, fake::host_reads_none, fake::no_form;

inline void cudaSetDevice(int device) { fake::self->device = device; }
inline void cudaDeviceSynchronize() { say("sync_device"); }

inline void cudaStreamCreateWithPriority(cudaStream_t *stream, int flags, int priority) {
    stream->number = fake::made('s').number;
    say("stream", as_handle(*stream), flags, priority);
}
inline void cudaStreamCreateWithFlags(cudaStream_t *stream, int flags) { cudaStreamCreateWithPriority(stream, flags, 0); }
inline void cudaStreamDestroy(cudaStream_t stream) { say("destroy_stream", as_handle(stream)); }
inline void cudaStreamSynchronize(cudaStream_t stream) { say("sync_stream", as_handle(stream)); }
inline void cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, int) { say("wait", as_handle(stream), as_handle(event)); }
inline cudaError_t cudaStreamQuery(cudaStream_t stream) {
    int is_ready = fake::drawn() % 2;
    say("query_stream", as_handle(stream), is_ready);
    return is_ready ? cudaSuccess : cudaErrorNotReady;
}

inline void cudaEventCreateWithFlags(cudaEvent_t *event, int) {
    event->number = fake::made('e').number;
    say("event", as_handle(*event));
}
inline void cudaEventDestroy(cudaEvent_t event) { say("destroy_event", as_handle(event)); }
inline void cudaEventRecord(cudaEvent_t event, cudaStream_t stream) { say("record", as_handle(event), as_handle(stream)); }
inline void cudaEventSynchronize(cudaEvent_t event) { say("sync_event", as_handle(event)); }
inline cudaError_t cudaEventQuery(cudaEvent_t event) {
    int is_ready = fake::drawn() % 2;
    say("query_event", as_handle(event), is_ready);
    return is_ready ? cudaSuccess : cudaErrorNotReady;
}

inline void cudaMalloc(char **at, size_t n) { *at = fake::block(n, "malloc"); }
inline void cudaMallocAsync(char **at, size_t n, cudaStream_t on) { *at = fake::block(n, "malloc_async", as_handle(on)); }
inline void cudaMallocHost(char **at, size_t n) { *at = fake::block(n, "malloc_host"); }
inline void cudaMallocManaged(char **at, size_t n) { *at = fake::block(n, "malloc_managed"); }
inline void cudaFree(const void *at) { say("free", at); }
inline void cudaFreeAsync(const void *at, cudaStream_t on) { say("free_async", at, as_handle(on)); }
inline void cudaFreeHost(const void *at) { say("free_host", at); }
inline void cudaHostRegister(const void *at, size_t n, int) { say("register", at, n); }
inline void cudaHostUnregister(const void *at) { say("unregister", at); }

inline void launched(const char *kernel, cudaStream_t on, long long ns) { say("kernel", kernel, as_handle(on), ns); }
inline void host_fn(void *) {}
inline void cudaLaunchHostFunc(cudaStream_t on, void (*)(void *), void *) { say("host_fn", as_handle(on)); }

inline void copied(const char *how, Bytes dst, Bytes src, cudaMemcpyKind kind, cudaStream_t on) {
    say("copy", how, dst, src, named(kind), as_handle(on));
}
inline void cudaMemcpy(void *dst, const void *src, size_t n, cudaMemcpyKind kind) {
    copied("sync", {dst, n}, {src, n}, kind, 0);
}
inline void cudaMemcpyAsync(void *dst, const void *src, size_t n, cudaMemcpyKind kind, cudaStream_t on) {
    copied("async", {dst, n}, {src, n}, kind, on);
}
inline void cudaMemcpy2D(void *dst, size_t to, const void *src, size_t from, size_t w, size_t h, cudaMemcpyKind kind) {
    copied("sync", {dst, w, to, h}, {src, w, from, h}, kind, 0);
}
inline void cudaMemcpy2DAsync(
    void *dst, size_t to, const void *src, size_t from, size_t w, size_t h, cudaMemcpyKind kind, cudaStream_t on) {
    copied("async", {dst, w, to, h}, {src, w, from, h}, kind, on);
}
inline void cudaMemcpyPeer(void *dst, int to, const void *src, int from, size_t n) {
    say("peer", "sync", Bytes{dst, n}, to, Bytes{src, n}, from, fake::Handle{'s', 0});
}
inline void cudaMemcpyPeerAsync(void *dst, int to, const void *src, int from, size_t n, cudaStream_t on) {
    say("peer", "async", Bytes{dst, n}, to, Bytes{src, n}, from, as_handle(on));
}
inline void cudaMemset(void *dst, int value, size_t n) { say("memset", "sync", Bytes{dst, n}, value, fake::Handle{'s', 0}); }
inline void cudaMemsetAsync(void *dst, int value, size_t n, cudaStream_t on) {
    say("memset", "async", Bytes{dst, n}, value, as_handle(on));
}
inline void cudaMemset2D(void *dst, size_t pitch, int value, size_t w, size_t h) {
    say("memset", "sync", Bytes{dst, w, pitch, h}, value, fake::Handle{'s', 0});
}
inline void cudaMemset2DAsync(void *dst, size_t pitch, int value, size_t w, size_t h, cudaStream_t on) {
    say("memset", "async", Bytes{dst, w, pitch, h}, value, as_handle(on));
}

inline void cudaStreamBeginCapture(cudaStream_t stream, int) { say("begin_capture", as_handle(stream)); }
inline void cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph) {
    graph->number = fake::made('g').number;
    say("end_capture", as_handle(stream), as_handle(*graph));
}
inline void cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, int) {
    *exec = graph;
    say("instantiate", as_handle(graph));
}
inline void cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t on) { say("launch", as_handle(graph), as_handle(on)); }

// One program in one interleaving.
inline void run(int program, int seed, void (*calls)()) {
    using namespace fake;
    std::printf("program %d %d\n", program, seed);
    Thread main{0};
    drawn.seed(1000 * program + seed);
    alive = {&main};
    running = self = &main;
    is_over = false;
    n_waits = n_threads = n_handles = end_of_blocks = 0;
    blocks.clear();
    try {
        calls();
    } catch (Over) {
    }
}

namespace std {
namespace fake = ::fake;
}
#define jthread fake::Jthread
#define latch fake::Latch
#define counting_semaphore fake::Semaphore
#define atomic fake::Atomic
#define this_thread fake
#define malloc(n) fake::block(n, "host_malloc")
#define free(at) say("host_free", static_cast<const void *>(at))
#define memset(at, value, n) say("host_set", Bytes{at, static_cast<size_t>(n)})
#define memcpy(dst, src, n) say("host_copy", Bytes{dst, static_cast<size_t>(n)}, Bytes{src, static_cast<size_t>(n)})
#define memmove memcpy
