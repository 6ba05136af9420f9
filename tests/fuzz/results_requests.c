/*
 * results_requests.c - frames that a rank and its supervisor send to the process that writes the results. Each line is
 * a frame: 'r' (from the rank) or 'c' (from the supervisor), the request (0: OPEN, 1: ROW, ...), the code (0: -4, 1:
 * -3, ...), and the payload; or '!' and bytes that are sent to the process as they are. Paths are replaced by files in
 * a temporary folder.
 */
#include "bootstrap/results/serve.h"
#include "tests/fuzz/fuzz.h"

#include <dirent.h>
#include <limits.h>
#include <sys/socket.h>

enum { CODE_0 = '4' };

static char folder[PATH_MAX / 2], json_path[PATH_MAX];

static void replace_path(json_t *value, const char *key)
{
    const char *path = json_string_value(json_object_get(value, key));
    char text[PATH_MAX];

    if (!path || strcmp(path, "-") == 0) /* "-": stdout */
        return;
    snprintf(text, sizeof(text), "%s/%s", folder, key);
    json_object_set_new(value, key, json_string(text));
}

static void choose_paths(json_t *value)
{
    json_t *root = json_object_get(value, "root");
    const char *path;

    replace_path(value, "path");
    replace_path(value, "csv");
    if (json_object_get(root, "results")) /* empty by contract (writer.h) */
        json_object_set_new(root, "results", json_array());
    path = json_string_value(json_object_get(value, "path"));
    if (path && strcmp(path, "-") != 0)
        snprintf(json_path, sizeof(json_path), "%s", path);
}

static int execute_in_folder(struct bb_results_writer *w, enum bb_results_request request, json_t *value)
{
    if (request == BB_RESULTS_OPEN)
        choose_paths(value);
    return bb_results_writer_execute(w, request, value);
}

#define bb_results_writer_execute execute_in_folder /* for the call in serve.c */
#include "bootstrap/results/serve.c"

static void send_frame(int rank_fd, int control_fd, const char *line)
{
    const size_t n = strlen(line);

    if (*line == '!')
        (void)!send(rank_fd, line + 1, n - 1, MSG_NOSIGNAL);
    else if (n >= 3 && (*line == 'r' || *line == 'c'))
        (void)!bb_rank_send(*line == 'r' ? rank_fd : control_fd,
                            (enum bb_rank_request)(BB_RESULTS_OPEN + line[1] - '0'), line[2] - CODE_0, line + 3, n - 3);
}

/* The file is complete, whatever the frames were. */
static void check_json(void)
{
    json_t *root = json_path[0] ? json_load_file(json_path, 0, NULL) : NULL;

    HOLDS(access(json_path, F_OK) != 0 || json_is_object(root));
    json_decref(root);
}

static void remove_folder(void)
{
    DIR *files = opendir(folder);

    for (struct dirent *file; files && (file = readdir(files)) != NULL;)
        if (file->d_name[0] != '.' || strlen(file->d_name) > 2)
            unlinkat(dirfd(files), file->d_name, 0);
    if (files)
        closedir(files);
    rmdir(folder);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size), *line[FUZZ_ARGUMENTS + 1];
    const int n = fuzz_arguments("", text, line);
    int rank[2], control[2];

    snprintf(folder, sizeof(folder), "%s/fuzz.XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    json_path[0] = '\0';
    if (!mkdtemp(folder) || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, rank) ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, control))
        exit(0);
    for (int i = 1; i < n; i++)
        send_frame(rank[1], control[1], line[i]);
    shutdown(rank[1], SHUT_WR);
    shutdown(control[1], SHUT_WR);
    (void)!bb_results_serve(rank[0], control[0], NULL, NULL);
    check_json();
    remove_folder();
    for (int i = 0; i < 2; i++) {
        close(rank[i]);
        close(control[i]);
    }
    free(text);
    return 0;
}
