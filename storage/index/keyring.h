/* keyring.h: an encryption key per task; each key can be destroyed alone.
 *
 * Contents that move into LMDB are encrypted with their task's key. Reason: LMDB leaves stale copies of deleted data in
 * free pages and in the slack of other pages, and nobody can find these copies. Without the key the copies are
 * unreadable. The keyring is one small file. An update replaces the whole file and overwrites the old one.
 *
 * A task's key is derived from the root of a binary tree along the 64 bits of the id (BLAKE2b, crypto_kdf). To destroy
 * the key x, the file drops the nodes on the path to x (·), and keeps the nodes beside the path (▣). A reader of the
 * file can derive every other key, but never x.
 *
 *                       ·
 *                     /   \
 *                   ▣       ·
 *                         /   \
 *                       ·       ▣
 *                      / \
 *                     ▣   x
 *
 * Goldreich, Goldwasser, Micali, "How to construct random functions" (1986); punctured as in Boneh, Waters (2013).
 * A destroyed key costs at most 64 nodes of 48 bytes; keys of neighbouring ids share most nodes.
 * File: DIR/index/keyring (FORMAT.md). Any thread, but only one thread may destroy keys at a time. */
#ifndef TARRY_STORAGE_KEYRING_H
#define TARRY_STORAGE_KEYRING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KEYRING_NAME "keyring"

struct keyring;

/* Makes a keyring with a random root in `directory`, unless one exists. 0 or a negative errno. */
int keyring_make(const char *directory, bool no_sync);
/* Opens the keyring, and completes an update that a crash interrupted. INDEX_DAMAGED: the file is missing or malformed.
 */
int keyring_open(struct keyring **out, const char *directory, bool read_only, bool no_sync);
void keyring_close(struct keyring *keyring); /* clears all keys from memory; NULL is allowed */

/* Encrypts or decrypts `data` in place; both are the same operation. A task has one content, which never changes. 1:
 * the key was destroyed. */
int keyring_apply(struct keyring *keyring, uint64_t id, void *data, size_t size);

/* Returns the memory in use, in bytes: 5 MiB after the first use of a key. */
size_t keyring_bytes(struct keyring *keyring);

/* Copies the keyring into the directory of another index, which has no keyring. Destroyed keys stay destroyed. No
 * thread may destroy keys meanwhile. 0 or a negative errno. */
int keyring_copy(const struct keyring *keyring, const char *directory);

/* Destroys keys, durably. Idempotent. 0 or a negative errno; after -ENOSPC nothing is lost and the caller may repeat
 * the call. */
int keyring_destroy(struct keyring *keyring, const uint64_t *ids, size_t count);

#endif
