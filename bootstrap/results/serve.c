/* serve.c - the process that writes the results of a supervised run. */
#include "bootstrap/results/serve.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

struct server {
    struct bb_rank_receiver rank;    /* requests of the rank; fd -1 after the rank has closed the connection */
    struct bb_rank_receiver control; /* FINISH from the supervisor */
    struct bb_results_writer writer; /* open after a successful OPEN */
};

/* Sends an answer. A process that has ended does not need an answer, so errors are ignored. */
static void answer(int fd, int code)
{
    (void)!bb_rank_send(fd, (enum bb_rank_request)BB_RESULTS_ANSWER, code, NULL, 0);
}

/* ---- requests of the rank ---- */

/* Executes and answers all requests that have arrived. */
static void serve_rank(struct server *s)
{
    struct bb_rank_header header;
    const void *payload;
    int n;

    while ((n = bb_rank_receive(&s->rank, &header, &payload)) > 0) {
        json_t *value = json_loadb(payload, header.bytes, JSON_DECODE_ANY, NULL);
        const char *path = json_string_value(json_object_get(value, "path"));

        /* The supervisor receives the path before the file is created, so that it can complete the file if this process
         * hangs. */
        if (path && header.request == BB_RESULTS_OPEN)
            (void)!bb_rank_send(s->control.fd, (enum bb_rank_request)BB_RESULTS_OPEN, 0, path, strlen(path));
        answer(s->rank.fd, bb_results_writer_execute(&s->writer, (enum bb_results_request)header.request, value));
        json_decref(value);
    }
    if (n == 0)
        return;
    if (n < -1)
        answer(s->control.fd, bb_err(BB_EFAIL, "results: invalid message of the rank"));
    (void)shutdown(s->rank.fd, SHUT_RDWR);
    s->rank.fd = -1;
}

/* A message with a descriptor: the header RANK, and the socket of the rank that was started again. */
struct passing {
    struct bb_rank_header header;
    struct iovec text;
    struct msghdr message;
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof(int))];
    } passed;
};

static struct msghdr *message_of(struct passing *p)
{
    *p = (struct passing){
        .header.request = BB_RESULTS_RANK,
        .passed.head = {.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS}};
    memcpy(CMSG_DATA(&p->passed.head), &(int){-1}, sizeof(int)); /* remains if no descriptor arrives */
    p->text = (struct iovec){&p->header, sizeof p->header};
    p->message = (struct msghdr){
        .msg_iov = &p->text, .msg_iovlen = 1, .msg_control = p->passed.bytes, .msg_controllen = sizeof p->passed.bytes};
    return &p->message;
}

/* Takes the socket of a rank that was started again, if the supervisor has passed it. */
static void take_rank(struct server *s)
{
    struct bb_rank_header header = {0};
    struct passing p;

    if (s->control.have > 0 || recv(s->control.fd, &header, sizeof header, MSG_PEEK | MSG_DONTWAIT) != sizeof header ||
        header.request != BB_RESULTS_RANK || recvmsg(s->control.fd, message_of(&p), MSG_CMSG_CLOEXEC) != sizeof header)
        return;
    if (s->rank.fd >= 0) /* the requests that have arrived completely */
        serve_rank(s);
    s->rank.have = 0;
    s->writer.reopens = true;
    memcpy(&s->rank.fd, CMSG_DATA(&p.passed.head), sizeof(int));
}

/* ---- main loop and end of the process ---- */

/* Executes requests of the rank until FINISH arrives. header, payload: out, of FINISH. Returns false if the supervisor
 * has ended without FINISH. */
static bool serve_until_finish(struct server *s, struct bb_rank_header *header, const void **payload)
{
    struct pollfd polls[] = {{.fd = s->control.fd, .events = POLLIN}, {.events = POLLIN}};
    int n;

    do {
        polls[1].fd = s->rank.fd;
        (void)poll(polls, 2, -1);
        take_rank(s);
        n = bb_rank_receive(&s->control, header, payload);
        if (s->rank.fd >= 0)
            serve_rank(s);
        if (n > 0 && header->request != BB_RESULTS_FINISH)
            answer(s->control.fd, -BB_EFAIL);
    } while (n == 0 || (n > 0 && header->request != BB_RESULTS_FINISH));
    return n > 0;
}

int bb_results_serve(int rank_fd, int control_fd, json_t *opening, bb_results_at_end *at_end)
{
    struct server s = {
        .rank = {.fd = rank_fd}, .control = {.fd = control_fd}, .writer = {.out = stdout, .at_end = at_end}};
    struct bb_err_record errors = {0}; /* of this process, not those of the supervisor before it was forked */
    struct bb_rank_header header;
    const void *payload;
    json_t *end;
    int code = -BB_EFAIL, rc = 0;

    bb_err_job_scope(1);
    bb_err_record_in(&errors);
    if (serve_until_finish(&s, &header, &payload)) {
        end = json_loadb(payload, header.bytes, 0, NULL);
        code = header.code;
    } else {
        end = json_pack("{s:s}", "ended_by", "the loss of its supervisor");
    }
    if (!s.writer.document.root)
        (void)!bb_results_writer_open_failed(&s.writer, opening, code);
    if (s.writer.document.root)
        rc = bb_results_writer_finish(&s.writer, code, end);
    rc = rc == code ? 0 : rc;
    answer(control_fd, rc);
    json_decref(end);
    bb_results_writer_release(&s.writer);
    bb_rank_receiver_release(&s.rank);
    bb_rank_receiver_release(&s.control);
    bb_err_record_in(NULL);
    return rc;
}

/* ---- functions of the supervisor ---- */

int bb_results_pass_rank(int control_fd, int rank_fd)
{
    struct passing p;
    const struct msghdr *message = message_of(&p);

    memcpy(CMSG_DATA(&p.passed.head), &rank_fd, sizeof rank_fd);
    return sendmsg(control_fd, message, MSG_NOSIGNAL) > 0 ? 0 : errno;
}

int bb_results_finish_send(int control_fd, int rc, const struct bb_results_end *end)
{
    json_t *value = bb_results_end_json(end);
    char *text = json_dumps(value, JSON_COMPACT);
    const int error = bb_rank_send(control_fd, (enum bb_rank_request)BB_RESULTS_FINISH, rc, text, strlen(text));

    json_decref(value);
    free(text);
    return error;
}

int bb_results_finish_poll(struct bb_rank_receiver *control, char **path, int *code)
{
    struct bb_rank_header header;
    const void *payload;
    int n;

    while ((n = bb_rank_receive(control, &header, &payload)) > 0 && header.request == BB_RESULTS_OPEN) {
        free(*path);
        *path = strndup(payload, header.bytes);
    }
    if (n > 0)
        *code = header.code;
    return n;
}
