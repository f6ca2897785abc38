package tarry;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.net.InetAddress;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermission;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.KeyStore;
import java.security.PrivateKey;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.security.spec.InvalidKeySpecException;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.Base64;
import java.util.Collection;
import java.util.EnumSet;
import java.util.List;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.net.ssl.KeyManager;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManager;
import javax.net.ssl.TrustManagerFactory;

/** Credentials that the client sends to a broker. Files are read at each connection attempt, so they may be replaced. */
final class Identity {
    private static final Set<PosixFilePermission> OWN = EnumSet.of(PosixFilePermission.OWNER_READ, PosixFilePermission.OWNER_WRITE, PosixFilePermission.OWNER_EXECUTE);
    private static final Pattern KEY = Pattern.compile("-----BEGIN PRIVATE KEY-----(.*?)-----END PRIVATE KEY-----", Pattern.DOTALL);
    private static final char[] NO_PASSWORD = {};
    String token, tokenFile, ca, cert, key;
    boolean unsafePlainToken;
    SSLContext context; // the program's own

    static String first(String given, String variable) {
        return given != null ? given : System.getenv(variable);
    }

    /** Returns the token for the broker at this address; null: none. */
    String bearer(URI to) {
        String file = token != null ? null : first(tokenFile, "TARRY_TOKEN_FILE");
        if (token == null && file == null) return null;
        boolean isUnsafe = unsafePlainToken || "1".equals(System.getenv("TARRY_UNSAFE_PLAIN_TOKEN"));
        if (to.getScheme().equals("ws") && !isLocal(to.getHost()) && !isUnsafe)
            throw denied("the token is not sent over ws:// to " + to.getHost() + ", where others can read it: use wss://, or set unsafePlainToken");
        return token != null ? token : read(Path.of(file));
    }

    private static boolean isLocal(String host) {
        if (host.equals("localhost")) return true;
        try { // a literal address; names are not looked up
            return host.matches("[0-9.]+|\\[[0-9a-fA-F:.]+\\]") && InetAddress.getByName(host).isLoopbackAddress();
        } catch (IOException unknown) {
            return false;
        }
    }

    static TarryException denied(String why) {
        return new TarryException("DENIED", why, null);
    }

    private static String read(Path file) {
        try {
            if (!OWN.containsAll(Files.getPosixFilePermissions(file))) throw denied("other users may read the token file " + file + ": chmod 600 " + file);
            String text = Files.readString(file).strip();
            if (text.isEmpty() || text.chars().anyMatch(Character::isWhitespace)) throw denied("the token file " + file + " must hold one token without blanks");
            return text;
        } catch (IOException error) {
            throw denied("the token file " + file + " cannot be read: " + error);
        }
    }

    SSLContext context() throws IOException, GeneralSecurityException {
        if (context != null) return context;
        String caFile = first(ca, "TARRY_TLS_CA"), certFile = first(cert, "TARRY_TLS_CERT"), keyFile = first(key, "TARRY_TLS_KEY");
        if (caFile == null && certFile == null) return SSLContext.getDefault();
        TrustManager[] trust = null;
        KeyManager[] own = null;
        if (caFile != null) {
            KeyStore store = empty();
            int number = 0;
            for (Certificate one : certificates(caFile)) store.setCertificateEntry("ca-" + number++, one);
            TrustManagerFactory factory = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
            factory.init(store);
            trust = factory.getTrustManagers();
        }
        if (certFile != null) {
            KeyStore store = empty();
            store.setKeyEntry("own", privateKey(keyFile != null ? keyFile : certFile), NO_PASSWORD, certificates(certFile).toArray(Certificate[]::new));
            KeyManagerFactory factory = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
            factory.init(store, NO_PASSWORD);
            own = factory.getKeyManagers();
        }
        SSLContext made = SSLContext.getInstance("TLS");
        made.init(own, trust, null);
        return made;
    }

    private static KeyStore empty() throws IOException, GeneralSecurityException {
        KeyStore store = KeyStore.getInstance("PKCS12");
        store.load(null, NO_PASSWORD);
        return store;
    }

    private static Collection<? extends Certificate> certificates(String file) throws IOException, GeneralSecurityException {
        return CertificateFactory.getInstance("X.509").generateCertificates(new ByteArrayInputStream(Files.readAllBytes(Path.of(file))));
    }

    /** Reads a PKCS #8 key; `openssl pkcs8 -topk8 -nodes` makes one of other formats. */
    private static PrivateKey privateKey(String file) throws IOException, GeneralSecurityException {
        Matcher found = KEY.matcher(Files.readString(Path.of(file)));
        if (!found.find()) throw new GeneralSecurityException(file + " has no PKCS #8 key (\"BEGIN PRIVATE KEY\")");
        PKCS8EncodedKeySpec spec = new PKCS8EncodedKeySpec(Base64.getMimeDecoder().decode(found.group(1)));
        for (String kind : List.of("EC", "RSA", "Ed25519")) {
            try {
                return KeyFactory.getInstance(kind).generatePrivate(spec);
            } catch (InvalidKeySpecException another) {
                continue;
            }
        }
        throw new GeneralSecurityException(file + ": the key is none of EC, RSA and Ed25519");
    }
}
