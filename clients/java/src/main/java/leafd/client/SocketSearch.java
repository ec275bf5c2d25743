package leafd.client;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.util.Map;
import java.util.OptionalInt;
import java.util.function.UnaryOperator;

/**
 * Where the daemon's socket is, for a client that was given no path. It depends on which directories exist,
 * never on which socket answers: an application whose daemon is down must not get IDs from another one.
 */
final class SocketSearch {
    private static final int ROOT = 0;
    private static final int WRITABLE_BY_OTHERS = 0022;

    private final UnaryOperator<String> environment;
    private final OptionalInt uid;
    private final Path root;

    /** {@code root} stands for {@code /} in tests. */
    SocketSearch(UnaryOperator<String> environment, OptionalInt uid, Path root) {
        this.environment = environment;
        this.uid = uid;
        this.root = root;
    }

    static SocketSearch ofThisProcess() {
        return new SocketSearch(System::getenv, effectiveUid(), Path.of("/"));
    }

    Path find() {
        String named = environment.apply("LEAFD_SOCKET");
        if (named != null && !named.isEmpty()) {
            return path(named);
        }
        boolean isRoot = uid.isPresent() && uid.getAsInt() == ROOT;
        if (!isRoot) {
            String runtime = environment.apply("XDG_RUNTIME_DIR");
            // The XDG specification says to ignore relative paths. An empty one is relative.
            if (runtime != null && runtime.startsWith("/")) {
                Path directory = path(runtime).resolve("leafd");
                if (Files.isDirectory(directory)) {
                    return directory.resolve("leafd.sock");
                }
            }
            if (uid.isPresent()) {
                Path directory = root.resolve("tmp/leafd-" + Integer.toUnsignedString(uid.getAsInt()));
                if (isPrivate(directory, uid.getAsInt())) {
                    return directory.resolve("leafd.sock");
                }
            }
        }
        return root.resolve("run/leafd/leafd.sock");
    }

    /** Looks at the directory itself, since anyone can make a symbolic link in /tmp. */
    private static boolean isPrivate(Path directory, int uid) {
        try {
            Map<String, Object> found =
                    Files.readAttributes(directory, "unix:isDirectory,uid,mode", LinkOption.NOFOLLOW_LINKS);
            return (Boolean) found.get("isDirectory")
                    && (Integer) found.get("uid") == uid
                    && ((Integer) found.get("mode") & WRITABLE_BY_OTHERS) == 0;
        } catch (IOException | UnsupportedOperationException | IllegalArgumentException absent) {
            return false;
        }
    }

    /** The owner of this directory is the effective user. Java has no other way to ask. */
    private static OptionalInt effectiveUid() {
        try {
            return OptionalInt.of((Integer) Files.getAttribute(Path.of("/proc/self"), "unix:uid"));
        } catch (IOException | UnsupportedOperationException | IllegalArgumentException unknown) {
            return OptionalInt.empty();
        }
    }

    private static Path path(String text) {
        try {
            return Path.of(text);
        } catch (InvalidPathException invalid) {
            throw new IllegalArgumentException("no path: " + text, invalid);
        }
    }
}
