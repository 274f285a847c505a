/*
 * Included before every file of Luau (LUAU_CXXFLAGS in .cargo/config.toml): makes small Lua states small. A match is a
 * state of its own. With Luau as it comes, an empty one takes many times what it needs, nearly all of it empty pages.
 * If the flags are missing, everything works as well, and matches need more memory.
 *
 * Pages. Luau keeps a page of 16 KB, or of 32 KB, for every size of object that a state has. Here the pages of a state
 * grow with it, from some 400 bytes to Luau's own sizes. lmem.cpp has no option for it, but names the two sizes twice only: where
 * they are defined, and where a page is made. So each place gets another name, and the two where a page is made mean the
 * function below. If Luau changes that order, it does not compile.
 *
 * Tables of a state that have a place for every tag of userdata and every category of memory, and room for what machine
 * code that Luau makes notes, which it makes none of here: mlua uses tag 0 alone. Categories are edge/tables/src/memory.rs's CATEGORIES; each takes 8 bytes of every state. Who changes what
 * stands here gives the file another name, because nothing else has Luau compiled again where it was before.
 */
#ifdef __cplusplus

#define LUA_UTAG_LIMIT 4
#define LUA_LUTAG_LIMIT 4
#define LUA_MEMORY_CATEGORIES 64
#define LUA_EXECUTION_CALLBACK_STORAGE 16

/* lua_Page's header. */
#define THRONG_HEADER 64
/* A page has no more than this share of its state, as long as that is above the smallest page. */
#define THRONG_SHARE 128

/*
 * Bytes of the smallest pages for blocks of `block` bytes. Larger ones have fewer headers, smaller ones fewer free
 * blocks: of nearly every size a match has some, and what its start threw away has left holes. What there is by the
 * hundred (tables, short texts) has larger ones. The figures are those with which a thousand matches took the least.
 */
static inline int throng_page_min(int block, bool collected)
{
    if (collected)
        return block == 32 || block == 48 ? 1024 : block <= 64 ? 448 : 512;
    return block <= 72 ? 448 : 384;
}

/*
 * Bytes of a new page for blocks of `block` bytes, in a state of `total` bytes whose page would be `most` bytes. A state
 * whose memory has a category is large: vm.rs sets it for calls.
 */
static inline int throng_page(unsigned long long total, int category, int block, int most, bool collected)
{
    int page = most;
    if (!category)
    {
        const int least = throng_page_min(block, collected);
        while (page > least && (unsigned long long)page * THRONG_SHARE > total)
            page /= 2;
        page = page < least ? least : page;
    }
    int blocks = (page - THRONG_HEADER) / block;
    return THRONG_HEADER + (blocks < 1 ? 1 : blocks) * block;
}

#define THRONG_PASTE(name, number) name##number
#define THRONG_NUMBERED(name, number) THRONG_PASTE(name, number)
#define kSmallPageSize THRONG_NUMBERED(throng_size_, __COUNTER__)
#define kLargePageSize THRONG_NUMBERED(throng_size_, __COUNTER__)
#define throng_size_2 THRONG_PAGE(throng_size_1)
#define throng_size_3 THRONG_PAGE(throng_size_0)
#define THRONG_PAGE(most) throng_page(L->global->totalbytes, L->activememcat, sizeOfClass + (storeMetadata ? kBlockHeader : 0), most, !storeMetadata)

#endif
