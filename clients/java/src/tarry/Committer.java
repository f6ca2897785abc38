package tarry;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import tarry.Wire.Out;

/**
 * Puts operations into commits, each of which takes effect once (ONCE-1). One commit is in flight. Operations that arrive
 * meanwhile gather for the next one. So operations take effect in the order of submission, and under load thousands share one
 * request. A commit keeps its producer and sequence until it is answered, through lost connections and failovers. So the
 * broker recognises a repeated commit, and repeats its first answer.
 */
final class Committer {
    static final int OPS_MAX = 8192;
    private static final int GATHER_SIZE_MAX = 4 << 20;
    private final Tarry client;
    private final Deque<Item> queue = new ArrayDeque<>();
    private final String name;
    private Thread thread;
    private boolean isClosed;
    private long producer, sequence; // producer and sequence of the committing thread

    private static final class Item {
        final List<byte[]> ops;
        final boolean isAtomic;
        final long until;
        final int size;
        boolean isAlone; // does not share its commit
        final CompletableFuture<List<Result>> future = new CompletableFuture<>();

        Item(List<byte[]> ops, boolean isAtomic, long until) {
            this.ops = ops;
            this.isAtomic = isAlone = isAtomic;
            this.until = until;
            size = ops.stream().mapToInt(op -> op.length).sum();
        }
    }

    Committer(Tarry client, String name) {
        this.client = client;
        this.name = name;
    }

    /** Submits operations. The future gets one result for each. */
    CompletableFuture<List<Result>> submit(List<byte[]> ops, boolean isAtomic, long until) {
        Item item = new Item(ops, isAtomic, until);
        synchronized (this) {
            if (isClosed) {
                item.future.completeExceptionally(new TarryException("CLOSED", "the client is closed", null));
                return item.future;
            }
            queue.add(item);
            if (thread == null) {
                thread = new Thread(this::run, name);
                thread.setDaemon(true);
                thread.start();
            }
            notifyAll();
        }
        var expiry = client.timer.schedule(() -> expire(item), Math.max(0, until - Clock.now()), TimeUnit.MILLISECONDS);
        item.future.whenComplete((results, error) -> expiry.cancel(false));
        return item.future;
    }

    /** Fails an item whose timeout passed while it waited for earlier commits. */
    private void expire(Item item) {
        boolean waits;
        synchronized (this) {
            waits = queue.remove(item);
        }
        if (waits) item.future.completeExceptionally(new TarryException.Unavailable("nothing was done in time: " + client.link.explain()));
    }

    private void run() {
        for (List<Item> items; !(items = gather()).isEmpty();) {
            try {
                send(items);
            } catch (RuntimeException error) { // no caller may wait for ever
                for (Item item : items) item.future.completeExceptionally(error);
            }
        }
        sayGoodbye();
    }

    /** Waits for operations. Returns none if the client is closed. */
    private synchronized List<Item> gather() {
        while (queue.isEmpty() && !isClosed) {
            try {
                wait();
            } catch (InterruptedException interrupted) {
                isClosed = true;
            }
        }
        List<Item> items = new ArrayList<>();
        for (int count = 0, size = 0; !queue.isEmpty();) {
            Item item = queue.peek();
            count += item.ops.size();
            size += item.size;
            if (!items.isEmpty() && (items.get(0).isAlone || item.isAlone || count > OPS_MAX || size > GATHER_SIZE_MAX)) break;
            items.add(queue.poll());
        }
        return items;
    }

    private synchronized void putBack(List<Item> items) {
        for (int at = items.size() - 1; at >= 0; at--) queue.addFirst(items.get(at));
    }

    private static void fail(List<Item> items, TarryException error) {
        for (Item item : items) item.future.completeExceptionally(error);
    }

    /** Commits the operations of `items` (each item: the operations of one call). After that each item has its results, or is in the queue again. */
    private void send(List<Item> items) {
        long started = System.nanoTime();
        Ask ask = null;
        while (!items.isEmpty()) {
            long until = items.stream().mapToLong(item -> item.until).min().getAsLong();
            Wire.In reply;
            try {
                if (producer == 0) hello(until);
                if (ask == null) {
                    sequence++;
                    ask = new Ask(client.link, pack(items), true);
                }
                reply = ask.run(until);
            } catch (TarryException error) {
                boolean isUnavailable = error instanceof TarryException.Unavailable;
                if (!isUnavailable && !(error instanceof TarryException.OutcomeUnknown)) {
                    if (ask != null && ask.unanswered > 0) producer = 0;
                    fail(items, error);
                    return;
                }
                fail(items.stream().filter(item -> item.until <= until).toList(), error);
                items = items.stream().filter(item -> item.until > until).toList();
                if (isUnavailable) { // nothing was executed: the other items are sent again
                    if (ask != null) sequence--;
                    putBack(items);
                    return;
                }
                continue;
            }
            if (Wire.code(reply.number(Wire.Reply.CODE)).equals("FORGOTTEN") && ask.unanswered == 1) { // it was sent only once, so the broker has not executed it
                producer = 0;
                ask = null;
                continue;
            }
            answer(items, reply, (System.nanoTime() - started) / 1e9);
            return;
        }
        producer = 0; // a commit of unknown outcome: its producer is not used again
    }

    private byte[] pack(List<Item> items) {
        Out commit = new Out().number(Wire.Commit.PRODUCER, producer).number(Wire.Commit.SEQUENCE, sequence).number(Wire.Commit.OLDEST_UNANSWERED, sequence)
            .flag(Wire.Commit.ATOMIC, items.get(0).isAtomic);
        for (Item item : items) for (byte[] op : item.ops) commit.message(Wire.Commit.OPS, op);
        return client.request(Wire.Request.COMMIT, commit);
    }

    private void answer(List<Item> items, Wire.In reply, double seconds) {
        client.measure("tarry.client.commit.seconds", seconds, java.util.Map.of("operations", items.stream().mapToInt(item -> item.ops.size()).sum()));
        String code = Wire.code(reply.number(Wire.Reply.CODE));
        if (code.equals("FORGOTTEN")) {
            producer = 0;
            fail(items, new TarryException.OutcomeUnknown("the broker has forgotten whether the operation took effect"));
        } else if (!code.equals("OK") && items.size() > 1) { // one bad operation refuses the whole request: send each alone
            for (Item item : items) item.isAlone = true;
            putBack(items);
        } else if (!code.equals("OK")) {
            fail(items, Ask.refusal(reply));
        } else {
            List<Result> results = reply.message(Wire.Reply.COMMIT).messages(Wire.CommitReply.RESULTS).stream().map(Result::of).toList();
            int at = 0;
            for (Item item : items) item.future.complete(results.subList(at, at += item.ops.size()));
        }
    }

    private void hello(long until) {
        Wire.In reply = new Ask(client.link, client.request(Wire.Request.HELLO, new Out()), false).run(until);
        if (reply.number(Wire.Reply.CODE) != 0) throw Ask.refusal(reply);
        Wire.In hello = reply.message(Wire.Reply.HELLO);
        producer = hello.number(Wire.HelloReply.PRODUCER);
        sequence = 0;
        client.metCluster(hello.bytes(Wire.HelloReply.CLUSTER));
    }

    private void sayGoodbye() {
        if (producer == 0 || !client.link.isUp()) return;
        try {
            client.link.ready(Clock.now()).exchange(client.request(Wire.Request.GOODBYE, new Out().number(Wire.Goodbye.PRODUCER, producer)), Clock.now() + 1000);
        } catch (Connection.Lost | Clock.TimedOut | TarryException missed) {
            producer = 0; // the broker forgets it after a day
        }
    }

    void close() {
        Thread running;
        synchronized (this) {
            isClosed = true;
            running = thread;
            notifyAll();
        }
        try {
            if (running != null) running.join(client.timeoutMs + 1000); // submitted operations are completed before the close
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
    }
}
