/** The plant store's own library before a store that keeps nothing: the cost of HTTP alone. */
import { listen, token } from "./common.mjs";

const { createPlantServer } = await import(process.env.BENCH_LIBRARY);
const nothing = {
  append: () => Promise.resolve(),
  close: () => Promise.resolve()
};
listen(createPlantServer({ store: nothing, tokens: [token] }));
