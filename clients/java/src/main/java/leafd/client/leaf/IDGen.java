package leafd.client.leaf;

/** A source of IDs, with the shape of {@code com.sankuai.inf.leaf.IDGen}. */
public interface IDGen {
    /**
     * Gets an ID. Never throws.
     *
     * @param key the tag
     * @return the ID, or a negative code
     */
    Result get(String key);

    /**
     * Prepares the source.
     *
     * @return whether IDs can be had
     */
    boolean init();
}
