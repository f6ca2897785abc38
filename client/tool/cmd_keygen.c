/* cmd_keygen.c: tarry keygen FILE: a key pair that signs heads of the log; with --peer, the secret with which the
 * nodes of a pair authenticate each other. It asks no broker. */
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "json_out.h"
#include "output.h"
#include "sign_key.h"
#include "tool.h"

#define PATH_SIZE 4096

static int run(struct tool *tool, const struct args *args);

#define PEER_KEY_SIZE 32 /* size of the secret in bytes; the file has it in hexadecimal */

static const struct arg_spec options[] = {
    {"peer", ARG_FLAG, NULL, "make a secret for both nodes of a pair (tarryd --peer-key)"},
    {0},
};

const struct command command_keygen = {
    .name = "keygen",
    .usage = "[--peer] FILE",
    .summary = "make a key pair that signs the log, or a pair's key",
    .text = "Makes an Ed25519 key pair: the secret key in FILE (mode 0600, readable only by its owner) and the\n"
            "public key in FILE.pub. tarryd --sign-key FILE signs heads of its log with the secret key. Anyone\n"
            "who has FILE.pub can prove with 'tarry verify DIR --key FILE.pub' that the log was not changed.\n"
            "Give FILE to the broker only. Keep FILE.pub, or its id, where the broker's machine cannot change\n"
            "it. The command does not overwrite files. Under the systemd units, root owns FILE, and the unit\n"
            "passes it to the broker: tarryd(8), CREDENTIALS.\n\n"
            "With --peer, makes another kind of key: a random secret in FILE (mode 0600), and no other file.\n"
            "Both nodes of a pair get the same secret (tarryd --peer-key FILE), and authenticate each other\n"
            "with it. Anyone who has the secret can take part in the pair. Copy it to the other node over a\n"
            "confidential connection, such as scp.",
    .options = options,
    .positional_min = 1,
    .positional_max = 1,
    .positional_names = "FILE",
    .examples = "tarry keygen /etc/tarry/sign.key\ntarryd --data /var/lib/tarry/main --sign-key /etc/tarry/sign.key\n"
                "tarry keygen --peer /etc/tarry/peer.key",
    .run = run,
};

/* Writes the file and syncs it; deletes it after a failure. Returns 0 or errno. */
static int write_file(const char *path, mode_t mode, const char *text, size_t size) {
    int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (file < 0) return errno;
    ssize_t written = write(file, text, size);
    int error = written == (ssize_t)size ? 0 : written < 0 ? errno : EIO;
    if (error == 0 && fsync(file) != 0) error = errno;
    if (close(file) != 0 && error == 0) error = errno;
    if (error != 0) unlink(path);
    return error;
}

static int refused(const char *path, int error) {
    if (error == EEXIST)
        tool_say("%s exists, and this command does not overwrite keys: give another file, or move it away first", path);
    else
        tool_say("%s cannot be written: %s", path, strerror(error));
    return EXIT_REFUSED;
}

static int write_pair(const char *path, const char *public_path, const struct sign_secret *secret) {
    char text[SIGN_KEY_TEXT_SIZE];
    size_t size = sign_public_format(&secret->public, text);
    int error = write_file(public_path, 0644, text, size);
    if (error != 0) return refused(public_path, error);
    size = sign_secret_format(secret, text);
    error = write_file(path, 0600, text, size);
    sodium_memzero(text, sizeof text);
    if (error == 0) error = sync_parent(path);
    if (error == 0) return EXIT_FINE;
    if (error == EEXIST) unlink(public_path); /* deletes the public key, because its secret key was not written */
    return refused(path, error);
}

static int no_random(void) {
    tool_say("the system provides no random numbers, or no protected memory for a key");
    return EXIT_REFUSED;
}

static int write_peer_key(const struct tool *tool, const char *path) {
    uint8_t secret[PEER_KEY_SIZE];
    char text[2 * PEER_KEY_SIZE + 2];
    struct text out = {0};
    if (sodium_init() < 0) return no_random();
    randombytes_buf(secret, sizeof secret);
    sodium_bin2hex(text, sizeof text - 1, secret, sizeof secret);
    memcpy(text + 2 * PEER_KEY_SIZE, "\n", 2);
    int error = write_file(path, 0600, text, 2 * PEER_KEY_SIZE + 1);
    sodium_memzero(secret, sizeof secret);
    sodium_memzero(text, sizeof text);
    if (error == 0) error = sync_parent(path);
    if (error != 0) return refused(path, error);
    if (tool->json) {
        out_begin(&out, '{');
        out_text(&out, "result", "made");
        out_text(&out, "secret", path);
        out_line_end(&out);
    } else {
        text_printf(&out, "peer key in %s: copy it to both nodes of the pair, and to no other machine\n", path);
    }
    int status = output_flush(&out, EXIT_FINE);
    text_deinit(&out);
    return status;
}

static int run(struct tool *tool, const struct args *args) {
    const char *path = args->positional[0];
    if (args_has(args, "peer")) return write_peer_key(tool, path);
    char public_path[PATH_SIZE], id[SIGN_KEY_ID_TEXT_SIZE];
    struct text out = {0};
    if (strlen(path) + sizeof ".pub" > sizeof public_path) return tool_usage(args, "the file name is too long");
    snprintf(public_path, sizeof public_path, "%s.pub", path);
    struct sign_secret *secret = sodium_init() < 0 ? NULL : sodium_malloc(sizeof *secret);
    if (secret == NULL) return no_random();
    sign_key_generate(secret);
    int status = write_pair(path, public_path, secret);
    sign_key_id_format(secret->public.id, id);
    sodium_free(secret);
    if (status != EXIT_FINE) return status;
    if (tool->json) {
        out_begin(&out, '{');
        out_text(&out, "result", "made");
        out_text(&out, "id", id);
        out_text(&out, "secret", path);
        out_text(&out, "public", public_path);
        out_line_end(&out);
    } else {
        text_printf(&out, "key %s: secret key in %s, public key in %s\n", id, path, public_path);
    }
    status = output_flush(&out, status);
    text_deinit(&out);
    return status;
}
