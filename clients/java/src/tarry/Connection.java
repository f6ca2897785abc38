package tarry;

import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.net.http.WebSocket;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Consumer;

/** A WebSocket to one address: to /rpc, with requests and replies in any order, or to a lane. */
final class Connection implements WebSocket.Listener {
    private static final long SILENCE_MS = 5000; // a connection without a reply for this long is given up
    private static final int NUMBER_SIZE = 4, MESSAGE_SIZE_MAX = 64 << 20;

    final int index;
    volatile boolean isUseful; // the last request was answered
    private final Consumer<byte[]> onMessage; // receives the messages of a lane
    private final Map<Integer, CompletableFuture<Wire.In>> waiting = new ConcurrentHashMap<>();
    private final CompletableFuture<Void> closed = new CompletableFuture<>();
    private final ByteArrayOutputStream partial = new ByteArrayOutputStream();
    private final Object sending = new Object();
    private int number = ThreadLocalRandom.current().nextInt();
    private volatile WebSocket socket;

    /** Thrown when the connection has ended. */
    static final class Lost extends Exception {
        private static final long serialVersionUID = 1;

        Lost() {
            super(null, null, false, false);
        }
    }

    Connection(int index, Consumer<byte[]> onMessage) {
        this.index = index;
        this.onMessage = onMessage;
    }

    @Override
    public void onOpen(WebSocket opened) {
        socket = opened;
        opened.request(1);
    }

    @Override
    public CompletionStage<?> onBinary(WebSocket from, ByteBuffer data, boolean isLast) {
        byte[] bytes = new byte[data.remaining()];
        data.get(bytes);
        partial.writeBytes(bytes);
        if (partial.size() > MESSAGE_SIZE_MAX) {
            close();
        } else if (isLast) {
            byte[] message = partial.toByteArray();
            partial.reset();
            try {
                take(message);
            } catch (IllegalArgumentException malformed) {
                close(); // the requests are repeated elsewhere
            }
        }
        from.request(1);
        return null;
    }

    private void take(byte[] message) {
        if (onMessage != null) {
            onMessage.accept(message);
            return;
        }
        if (message.length < NUMBER_SIZE) throw new IllegalArgumentException("malformed message: no number");
        CompletableFuture<Wire.In> future = waiting.remove(ByteBuffer.wrap(message).getInt());
        if (future != null) future.complete(new Wire.In(java.util.Arrays.copyOfRange(message, NUMBER_SIZE, message.length)));
    }

    @Override
    public CompletionStage<?> onClose(WebSocket from, int status, String reason) {
        close();
        return null;
    }

    @Override
    public void onError(WebSocket from, Throwable error) {
        close();
    }

    boolean isOpen() {
        return socket != null && !closed.isDone();
    }

    /** Returns a future that is completed when the connection has ended. */
    CompletableFuture<Void> closed() {
        return closed;
    }

    void close() {
        closed.complete(null);
        WebSocket open = socket;
        if (open != null) open.abort();
        for (CompletableFuture<Wire.In> future : waiting.values()) future.completeExceptionally(new Lost());
    }

    /** Sends a request and returns its reply. Throws Lost if the connection ends, or after SILENCE_MS without a reply. */
    Wire.In exchange(byte[] request, long until) throws Lost, Clock.TimedOut {
        CompletableFuture<Wire.In> future = new CompletableFuture<>();
        long silent = Clock.now() + SILENCE_MS;
        int mine;
        try {
            synchronized (sending) { // one message at a time
                if (!isOpen()) throw new Lost();
                mine = number++ | 0x80000000; // SP: the first bit marks a request's number
                waiting.put(mine, future);
                ByteBuffer message = ByteBuffer.allocate(NUMBER_SIZE + request.length).putInt(mine).put(request).flip();
                socket.sendBinary(message, true).get(SILENCE_MS, TimeUnit.MILLISECONDS);
            }
            if (closed.isDone()) throw new Lost(); // the connection ended before the future was registered
            try {
                Wire.In reply = future.get(Clock.left(Math.min(until, silent)), TimeUnit.MILLISECONDS);
                isUseful = true;
                return reply;
            } finally {
                waiting.remove(mine);
            }
        } catch (TimeoutException | Clock.TimedOut late) {
            if (until < silent) throw new Clock.TimedOut();
            isUseful = false;
            close();
            throw new Lost();
        } catch (ExecutionException | IllegalStateException ended) {
            close();
            throw new Lost();
        } catch (InterruptedException interrupted) {
            throw Clock.interrupted();
        }
    }
}
