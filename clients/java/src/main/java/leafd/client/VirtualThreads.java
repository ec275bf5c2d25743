package leafd.client;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;

/** Which thread is virtual, also for a JDK that does not know yet. */
final class VirtualThreads {
    /** {@code Thread.isVirtual}; null before Java 21. */
    private static final MethodHandle IS_VIRTUAL = find();

    private VirtualThreads() {}

    static boolean isCurrent() {
        try {
            return IS_VIRTUAL != null && (boolean) IS_VIRTUAL.invokeExact(Thread.currentThread());
        } catch (Error noRoom) {
            throw noRoom;
        } catch (Throwable impossible) {
            throw new AssertionError(impossible);
        }
    }

    private static MethodHandle find() {
        try {
            MethodType type = MethodType.methodType(boolean.class);
            return MethodHandles.publicLookup().findVirtual(Thread.class, "isVirtual", type);
        } catch (ReflectiveOperationException absent) {
            return null;
        }
    }
}
