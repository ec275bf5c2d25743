/**
 * The client of leafd, a daemon that issues unique 64-bit IDs to the processes on its host.
 *
 * <p>{@link leafd.client.LeafdClient} asks the daemon for IDs. {@link leafd.client.LeafdPool} leases ranges
 * of IDs ahead of need.
 */
module leafd.client {
    exports leafd.client;
    exports leafd.client.form;
    exports leafd.client.leaf;
    exports leafd.client.wire;
}
