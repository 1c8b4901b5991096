// A delay line between pairs of interfaces: added latency where the kernel itself has none.
//
//     delay_line NAMESPACE INTERFACE NAMESPACE INTERFACE ...      (in pairs)
//
// Makes each interface (a TAP device) in its namespace. A frame that the kernel sends on one of a pair comes out of the
// other: at once from the first to the second, after the delay from the second to the first. A line of standard input
// sets the delay, in nanoseconds; the answer is "ready", as it is once all interfaces are there. At the end of standard
// input, which comes with the program that started this one, it ends, and the interfaces with it.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { FRAME = 1 << 16, AT_ONCE = 64 };  // bytes of the longest frame; frames that are read before others get a turn
static const int64_t MOST = 1 << 28;     // bytes that may wait in a line; what comes beyond is dropped

struct frame {
    struct frame *next;
    int64_t due;
    ssize_t size;
    char bytes[];
};

struct line {
    int to;
    struct frame *first, **end;
    int64_t waiting;
};

static int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static void fail(const char *what, const char *where) {
    printf("%s %s: %s\n", what, where, strerror(errno));
    exit(1);
}

// A TAP device in a namespace. With its header the kernel hands over many frames as one, and leaves out checksums.
static int open_tap(const char *namespace, const char *name) {
    char path[256];
    snprintf(path, sizeof path, "/run/netns/%s", namespace);
    const int place = open(path, O_RDONLY | O_CLOEXEC);
    if (place < 0 || setns(place, CLONE_NEWNET)) fail("can't enter", path);
    close(place);
    const int tap = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (tap < 0) fail("can't open", "/dev/net/tun");
    struct ifreq request = {.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR};
    strncpy(request.ifr_name, name, IFNAMSIZ - 1);
    if (ioctl(tap, TUNSETIFF, &request)) fail("can't make", name);
    if (ioctl(tap, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4)) fail("can't set up", name);
    return tap;
}

static void put(struct line *line, const char *bytes, ssize_t size, int64_t due) {
    struct frame *frame;
    if (line->waiting + size > MOST || !(frame = malloc(sizeof *frame + size))) return;
    *frame = (struct frame){.due = due, .size = size};
    memcpy(frame->bytes, bytes, size);
    *line->end = frame;
    line->end = &frame->next;
    line->waiting += size;
}

// Lets out what is due; when the next frame is.
static int64_t let_out(struct line *line, int64_t time) {
    while (line->first && line->first->due <= time) {
        struct frame *frame = line->first;
        if (write(line->to, frame->bytes, frame->size) < 0 && errno == EAGAIN) return time;
        if (!(line->first = frame->next)) line->end = &line->first;
        line->waiting -= frame->size;
        free(frame);
    }
    return line->first ? line->first->due : INT64_MAX;
}

int main(int count, char **names) {
    const int n = (count - 1) / 2;  // interfaces; 2k and 2k + 1 are a pair
    struct pollfd *ends = calloc(n + 1, sizeof *ends);
    struct line *lines = calloc(n, sizeof *lines);
    static char bytes[FRAME + 64];
    int64_t delay = 0;
    setvbuf(stdout, NULL, _IONBF, 0);
    setpriority(PRIO_PROCESS, 0, -20);  // what it does is the network's: no worker should keep it waiting
    prctl(PR_SET_TIMERSLACK, 1);
    for (int i = 0; i < n; i++) ends[i] = (struct pollfd){open_tap(names[1 + 2 * i], names[2 + 2 * i]), POLLIN, 0};
    for (int i = 0; i < n; i++) lines[i] = (struct line){.to = ends[i ^ 1].fd, .end = &lines[i].first};
    ends[n] = (struct pollfd){STDIN_FILENO, POLLIN, 0};
    puts("ready");
    for (;;) {
        int64_t next = INT64_MAX, time = now();
        for (int i = 0; i < n; i++) {
            const int64_t due = let_out(&lines[i], time);
            if (due < next) next = due;
        }
        const int64_t wait = next > time ? next - time : 0;
        const struct timespec timeout = {wait / 1000000000, wait % 1000000000};
        if (ppoll(ends, n + 1, next == INT64_MAX ? NULL : &timeout, NULL) < 0 && errno != EINTR) fail("can't", "poll");
        if (ends[n].revents) {
            char text[64];
            const ssize_t size = read(STDIN_FILENO, text, sizeof text - 1);
            if (size <= 0) return 0;
            text[size] = 0;
            delay = strtoll(text, NULL, 10);
            puts("ready");
        }
        for (int i = 0; i < n; i++) {
            ssize_t size;
            if (!(ends[i].revents & POLLIN)) continue;
            for (int k = 0; k < AT_ONCE && (size = read(ends[i].fd, bytes, sizeof bytes)) > 0; k++)
                put(&lines[i], bytes, size, i % 2 ? now() + delay : 0);
        }
    }
}
