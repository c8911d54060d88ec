/** The bar: what any server on node:http must do, and nothing else. No check, no token, no store.
 */
import { createServer } from "node:http";
import { bar, listen } from "./common.mjs";

listen(createServer(bar));
