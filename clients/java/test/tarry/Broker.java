package tarry;

import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.Deque;
import java.util.List;

/** A broker for tests: answers Hello, and answers commits from a script. */
final class Broker implements AutoCloseable {
    /** Returns the Reply to a commit. null: the broker closes the connection; an empty Reply: the broker sends nothing. */
    interface Answer {
        Wire.Out to(Wire.In commit);
    }

    private final ServerSocket server = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
    private final Answer always;
    private final Deque<Answer> script = new ArrayDeque<>();
    private final List<byte[]> commits = new ArrayList<>();
    private long producers;

    Broker(Answer always, Answer... first) throws IOException {
        this.always = always;
        script.addAll(Arrays.asList(first));
        daemon(this::accept);
    }

    String url() {
        return "ws://127.0.0.1:" + server.getLocalPort();
    }

    synchronized List<byte[]> commits() {
        return List.copyOf(commits);
    }

    synchronized void forgetScript() {
        script.clear();
    }

    private static void daemon(Runnable run) {
        Thread thread = new Thread(run);
        thread.setDaemon(true);
        thread.start();
    }

    private void accept() {
        try {
            while (true) {
                Socket socket = server.accept();
                daemon(() -> serve(socket));
            }
        } catch (IOException closed) {
            return;
        }
    }

    private void serve(Socket socket) {
        try (socket) {
            DataInputStream in = new DataInputStream(socket.getInputStream());
            upgrade(in, socket.getOutputStream());
            while (true) if (!answer(message(in), socket.getOutputStream())) return;
        } catch (IOException | GeneralSecurityException ended) {
            return;
        }
    }

    private static void upgrade(DataInputStream in, OutputStream out) throws IOException, GeneralSecurityException {
        StringBuilder head = new StringBuilder();
        while (head.indexOf("\r\n\r\n") < 0) head.append((char) in.readUnsignedByte());
        String key = head.toString().lines().filter(line -> line.toLowerCase().startsWith("sec-websocket-key:")).findFirst().orElseThrow().substring(18).strip();
        byte[] hash = MessageDigest.getInstance("SHA-1").digest((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").getBytes(StandardCharsets.US_ASCII));
        out.write(("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Protocol: rep.sp.nanomsg.org\r\n"
            + "Sec-WebSocket-Accept: " + Base64.getEncoder().encodeToString(hash) + "\r\n\r\n").getBytes(StandardCharsets.US_ASCII));
    }

    /** Reads the next binary message, which may have several frames. */
    private static byte[] message(DataInputStream in) throws IOException {
        ByteArrayOutputStream message = new ByteArrayOutputStream();
        while (true) {
            int first = in.readUnsignedByte(), size = in.readUnsignedByte() & 0x7f;
            if (size == 126) size = in.readUnsignedShort();
            else if (size == 127) size = (int) in.readLong();
            byte[] mask = new byte[4], data = new byte[size];
            in.readFully(mask);
            in.readFully(data);
            if ((first & 0x0f) > 2) throw new EOFException();
            for (int at = 0; at < size; at++) data[at] ^= mask[at & 3];
            message.writeBytes(data);
            if ((first & 0x80) != 0) return message.toByteArray();
        }
    }

    private boolean answer(byte[] message, OutputStream out) throws IOException {
        Wire.In request = new Wire.In(Arrays.copyOfRange(message, 4, message.length));
        Wire.Out reply = new Wire.Out();
        synchronized (this) {
            if (request.has(Wire.Request.HELLO)) {
                reply.message(Wire.Reply.HELLO, new Wire.Out().number(Wire.HelloReply.PRODUCER, ++producers));
            } else if (request.has(Wire.Request.COMMIT)) {
                commits.add(request.bytes(Wire.Request.COMMIT));
                Answer chosen = script.isEmpty() ? always : script.poll();
                reply = chosen.to(request.message(Wire.Request.COMMIT));
                if (reply == null) return false;
                if (reply.packed().length == 0) return true;
            }
        }
        byte[] packed = reply.packed();
        ByteArrayOutputStream frame = new ByteArrayOutputStream();
        frame.write(0x82);
        int size = packed.length + 4;
        if (size > 125) frame.writeBytes(new byte[] {126, (byte) (size >> 8), (byte) size});
        else frame.write(size);
        frame.write(message, 0, 4);
        frame.writeBytes(packed);
        out.write(frame.toByteArray());
        return true;
    }

    @Override
    public void close() throws IOException {
        server.close();
    }
}
