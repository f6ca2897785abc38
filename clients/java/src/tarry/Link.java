package tarry;

import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.WebSocket;
import java.net.http.WebSocketHandshakeException;
import java.security.GeneralSecurityException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ThreadLocalRandom;
import java.util.function.Consumer;
import java.util.stream.Collectors;

/**
 * Finds the primary: keeps one connection to /rpc, and tries the addresses one after another. A thread that needs a
 * connection makes it; other threads wait for that.
 */
class Link {
    private static final String DEFAULT_URL = "ws://127.0.0.1:7272";
    private static final long DIAL_PATIENCE_MS = 1000; // limit for one connection attempt if there are other addresses
    private static final long DIAL_PATIENCE_ALONE_MS = 5000;
    private static final long DIAL_AGAIN_MIN_MS = 25; // pause after a round over all addresses, doubled each time
    private static final long DIAL_AGAIN_MAX_MS = 400;

    /** Is notified when a connection is made or lost. */
    interface Watcher {
        void on(String address, boolean isUp, String why);
    }

    private final List<URI> urls;
    private final Identity identity;
    private final Watcher watcher;
    private final Map<Integer, String> said = new TreeMap<>(); // address → why it was of no use
    private final Set<Integer> tried = new HashSet<>(); // addresses of this round
    private final Set<Integer> denied = new HashSet<>(); // addresses that do not accept this client
    private Connection connection;
    private boolean isDialing, isClosed;
    private int index, rounds;

    Link(String text, Identity identity, Watcher watcher) {
        urls = parse(text != null ? text : Identity.first(null, "TARRY_BROKER") != null ? Identity.first(null, "TARRY_BROKER") : DEFAULT_URL);
        this.identity = identity;
        this.watcher = watcher;
    }

    static List<URI> parse(String text) {
        List<URI> parsed = new ArrayList<>();
        for (String one : text.split(",", -1)) {
            URI url = null;
            try {
                url = URI.create(one.strip().replaceAll("/$", ""));
            } catch (IllegalArgumentException malformed) {
                url = null;
            }
            if (url == null || !("ws".equals(url.getScheme()) || "wss".equals(url.getScheme())) || url.getHost() == null || !url.getPath().isEmpty() || url.getQuery() != null)
                throw new IllegalArgumentException("the broker's address \"" + one + "\" must look like ws://host:7272 or wss://host:7272");
            parsed.add(url);
        }
        return parsed;
    }

    int count() {
        return urls.size();
    }

    String name(int at) {
        return urls.get(at).toString();
    }

    synchronized String explain() {
        if (said.isEmpty()) return "no broker has replied";
        return said.entrySet().stream().map(entry -> name(entry.getKey()) + ": " + entry.getValue()).collect(Collectors.joining("; "));
    }

    synchronized boolean isUp() {
        return connection != null && connection.isOpen();
    }

    /**
     * Returns the open connection, and makes one if necessary. Throws TarryException if the client is closed, or no broker
     * accepts it.
     */
    Connection ready(long until) throws Clock.TimedOut {
        while (true) {
            synchronized (this) {
                if (isClosed) throw new TarryException("CLOSED", "the client is closed", null);
                if (isUp()) return connection;
                if (isDialing) {
                    Clock.await(this, until);
                    continue;
                }
                Clock.left(until);
                isDialing = true;
            }
            try {
                dial(until);
            } finally {
                synchronized (this) {
                    isDialing = false;
                    notifyAll();
                }
            }
        }
    }

    /** Makes one attempt at the next address. */
    private void dial(long until) throws Clock.TimedOut {
        long pauseMs;
        synchronized (this) {
            if (connection != null) { // after a lost connection that was useful, try the same address first
                boolean isUseful = connection.isUseful;
                drop(isUseful ? "the connection was lost" : "the broker does not answer requests");
                if (!isUseful) goOn(null);
            }
            pauseMs = 0;
            if (tried.size() >= urls.size()) {
                tried.clear();
                rounds++;
                pauseMs = (long) (Math.min(DIAL_AGAIN_MIN_MS << Math.min(rounds, 10), DIAL_AGAIN_MAX_MS) * ThreadLocalRandom.current().nextDouble(0.5, 1));
            }
        }
        if (pauseMs > 0) Clock.sleep(pauseMs, until);
        int at = index; // only this thread changes it meanwhile
        Connection made = new Connection(at, null);
        String why;
        boolean isDenied = false;
        try {
            open(made, "/rpc", "rep.sp.nanomsg.org", identity.bearer(urls.get(at)));
            synchronized (this) {
                if (isClosed) {
                    made.close();
                    throw new TarryException("CLOSED", "the client is closed", null);
                }
                denied.remove(at);
                connection = made;
            }
            watcher.on(name(at), true, "");
            return;
        } catch (TarryException error) {
            if (!error.code().equals("DENIED")) throw error;
            why = error.getMessage();
            isDenied = true;
        } catch (CompletionException | IOException | GeneralSecurityException error) {
            Throwable cause = error instanceof CompletionException && error.getCause() != null ? error.getCause() : error;
            int status = cause instanceof WebSocketHandshakeException refused ? refused.getResponse().statusCode() : 0;
            isDenied = status == 401 || status == 403;
            why = isDenied ? "the broker does not accept this client's token or certificate (HTTP " + status + ")" : status != 0 ? "HTTP " + status : cause.toString();
        }
        made.close();
        synchronized (this) {
            said.put(at, why);
            if (isDenied) denied.add(at);
            else denied.remove(at);
            if (denied.size() == urls.size()) {
                tried.add(at);
                throw Identity.denied(explain());
            }
            goOn(null);
        }
    }

    private void open(Connection made, String path, String protocol, String bearer) throws IOException, GeneralSecurityException {
        URI url = urls.get(made.index);
        Duration patience = Duration.ofMillis(urls.size() == 1 ? DIAL_PATIENCE_ALONE_MS : DIAL_PATIENCE_MS);
        HttpClient.Builder http = HttpClient.newBuilder().connectTimeout(patience).version(HttpClient.Version.HTTP_1_1);
        if (url.getScheme().equals("wss")) http.sslContext(identity.context());
        WebSocket.Builder socket = http.build().newWebSocketBuilder().connectTimeout(patience).subprotocols(protocol);
        if (bearer != null) socket.header("Authorization", "Bearer " + bearer);
        socket.buildAsync(URI.create(url + path), made).join();
    }

    /** Opens the WebSocket that brings a session's tasks. Throws IOException if it cannot. */
    Connection openLane(int at, long lane, String secret, Consumer<byte[]> onMessage) throws IOException {
        Connection made = new Connection(at, onMessage);
        try {
            open(made, "/lane/" + lane, "push.sp.nanomsg.org", secret);
            return made;
        } catch (CompletionException | GeneralSecurityException error) {
            made.close();
            throw new IOException(error);
        }
    }

    /** Records that the broker at this connection handled a request. */
    synchronized void useful(Connection from) {
        tried.clear();
        rounds = 0;
        said.remove(from.index);
    }

    /**
     * Leaves the broker at this connection, because it is not the primary. `hint` is the address that it names as the
     * primary, or "".
     */
    synchronized void leave(Connection from, String hint, String why) {
        if (from != connection) return;
        drop(why);
        goOn(hint.replaceAll("/$", ""));
    }

    private void drop(String why) {
        said.put(index, why);
        if (connection == null) return;
        connection.close();
        connection = null;
        watcher.on(name(index), false, why);
    }

    /** Chooses the next address. The address `named` comes next if it was not tried in this round. */
    private void goOn(String named) {
        tried.add(index);
        int next = (index + 1) % urls.size();
        for (int step = urls.size(); step > 0; step--) {
            int candidate = (index + step) % urls.size();
            if (!tried.contains(candidate)) next = candidate;
        }
        for (int at = 0; at < urls.size(); at++) if (name(at).equals(named) && !tried.contains(at)) next = at;
        index = next;
    }

    synchronized void close() {
        isClosed = true;
        drop("the client was closed");
        notifyAll();
    }
}
