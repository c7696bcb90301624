"use strict";

// A machine for one run of the program: its words, and files in memory. What of WASI (preview 1) the
// program imports and does not need is answered with "no such function".

const errno = {badf: 8, exist: 20, inval: 28, isdir: 31, noent: 44, nosys: 52, notdir: 54, spipe: 70};
const kinds = {device: 2, folder: 3, file: 4};

class Exit {
  constructor(status) {
    this.status = status;
  }
}

// A text or bytes that grow.
class Bytes {
  constructor(given = new Uint8Array()) {
    this.all = given;
    this.size = given.length;
  }
  write(at, some) {
    const end = at + some.length;
    if (end > this.all.length) {
      const more = new Uint8Array(Math.max(end, 2 * this.all.length));
      more.set(this.all.subarray(0, this.size));
      this.all = more;
    }
    this.all.set(some, at);
    this.size = Math.max(this.size, end);
  }
  get() {
    return this.all.subarray(0, this.size);
  }
  text() {
    return new TextDecoder().decode(this.get());
  }
}

const normal = path => {
  const parts = [];
  for (const one of path.split("/")) {
    if (one === "..") parts.pop();
    else if (one !== "" && one !== ".") parts.push(one);
  }
  return parts.join("/");
};

// Runs the program with these words, "plan", "gpt2", and files, {"config.json": text}. What it says
// on both outputs, how it ends, and all files afterwards, as texts by their paths.
function run(module, words, files = {}) {
  const nodes = new Map([["", null]]); // folders are null
  const makeFolders = path => {
    const parts = path.split("/").slice(0, -1);
    parts.forEach((_, at) => nodes.set(parts.slice(0, at + 1).join("/"), null));
  };
  for (const [name, text] of Object.entries(files)) {
    makeFolders(normal(name));
    nodes.set(normal(name), new Bytes(new TextEncoder().encode(text)));
  }
  const out = new Bytes();
  const err = new Bytes();
  const open = new Map([
    [0, {kind: kinds.device, bytes: new Bytes(), at: 0}],
    [1, {kind: kinds.device, bytes: out, at: 0}],
    [2, {kind: kinds.device, bytes: err, at: 0}],
    [3, {kind: kinds.folder, path: ""}],
  ]);
  let memory;
  const view = () => new DataView(memory.buffer);
  const u8 = (at, size) => new Uint8Array(memory.buffer, at, size);
  const text = (at, size) => new TextDecoder().decode(u8(at, size));
  const put64 = (at, value) => view().setBigUint64(at, BigInt(value), true);
  const put32 = (at, value) => view().setUint32(at, value, true);
  const pathOf = (folder, at, size) => normal(folder.path + "/" + text(at, size));
  const texts = words.map(one => new TextEncoder().encode(one + "\0"));
  const tell = (to, kind, size) => {
    u8(to, 64).fill(0);
    view().setUint8(to + 16, kind);
    put64(to + 24, 1);
    put64(to + 32, size);
    return 0;
  };
  const each = (vectors, count, use) => {
    for (let one = 0; one < count; ++one) {
      const at = view().getUint32(vectors + 8 * one, true);
      if (!use(u8(at, view().getUint32(vectors + 8 * one + 4, true)))) break;
    }
  };
  const onFile = use => (fd, ...rest) => (open.get(fd)?.bytes ? use(open.get(fd), ...rest) : errno.badf);
  const inFolder = use => (fd, ...rest) =>
    open.get(fd)?.kind === kinds.folder ? use(open.get(fd), ...rest) : errno.badf;

  const wasi = {
    args_sizes_get(count, size) {
      put32(count, texts.length);
      put32(size, texts.reduce((sum, one) => sum + one.length, 0));
      return 0;
    },
    args_get(pointers, at) {
      texts.forEach((one, n) => {
        put32(pointers + 4 * n, at);
        u8(at, one.length).set(one);
        at += one.length;
      });
      return 0;
    },
    environ_sizes_get(count, size) {
      put32(count, 0);
      put32(size, 0);
      return 0;
    },
    environ_get: () => 0,
    clock_time_get(id, _, to) {
      const ms = id === 0 ? Date.now() : performance.now();
      put64(to, Math.round(ms * 1e6));
      return 0;
    },
    random_get(at, size) {
      crypto.getRandomValues(u8(at, size));
      return 0;
    },
    proc_exit(status) {
      throw new Exit(status);
    },
    fd_prestat_get(fd, to) {
      if (fd !== 3) return errno.badf;
      put32(to, 0);
      put32(to + 4, 1);
      return 0;
    },
    fd_prestat_dir_name(fd, at) {
      u8(at, 1)[0] = "/".charCodeAt(0);
      return 0;
    },
    fd_fdstat_get(fd, to) {
      if (!open.has(fd)) return errno.badf;
      u8(to, 24).fill(0);
      view().setUint8(to, open.get(fd).kind);
      put64(to + 8, 0xffffffffffffffffn);
      put64(to + 16, 0xffffffffffffffffn);
      return 0;
    },
    fd_filestat_get(fd, to) {
      const one = open.get(fd);
      return one ? tell(to, one.kind, one.bytes?.size ?? 0) : errno.badf;
    },
    fd_close: fd => (open.delete(fd) ? 0 : errno.badf),
    fd_sync: fd => (open.has(fd) ? 0 : errno.badf),
    fd_read: onFile((one, vectors, count, to) => {
      let sum = 0;
      each(vectors, count, into => {
        const some = one.bytes.get().subarray(one.at, one.at + into.length);
        into.set(some);
        one.at += some.length;
        sum += some.length;
        return some.length === into.length;
      });
      put32(to, sum);
      return 0;
    }),
    fd_write: onFile((one, vectors, count, to) => {
      let sum = 0;
      each(vectors, count, some => {
        one.bytes.write(one.at, some);
        one.at += some.length;
        sum += some.length;
        return true;
      });
      put32(to, sum);
      return 0;
    }),
    fd_seek: onFile((one, offset, from, to) => {
      if (one.kind === kinds.device) return errno.spipe;
      const at = Number(offset) + [0, one.at, one.bytes.size][from];
      if (!(at >= 0)) return errno.inval;
      one.at = at;
      put64(to, at);
      return 0;
    }),
    path_filestat_get: inFolder((folder, _, at, size, to) => {
      const node = nodes.get(pathOf(folder, at, size));
      if (node === undefined) return errno.noent;
      return node === null ? tell(to, kinds.folder, 0) : tell(to, kinds.file, node.size);
    }),
    path_create_directory: inFolder((folder, at, size) => {
      const path = pathOf(folder, at, size);
      if (nodes.has(path)) return errno.exist;
      if (!nodes.has(normal(path + "/.."))) return errno.noent;
      nodes.set(path, null);
      return 0;
    }),
    path_open: inFolder((folder, _, at, size, how, rights, inherited, flags, to) => {
      const [create, wantsFolder, isNew, empties] = [1, 2, 4, 8].map(bit => (how & bit) !== 0);
      const path = pathOf(folder, at, size);
      if (!nodes.has(path)) {
        if (!create || !nodes.has(normal(path + "/.."))) return errno.noent;
        nodes.set(path, new Bytes());
      } else if (create && isNew) {
        return errno.exist;
      }
      const node = nodes.get(path);
      if (node !== null && wantsFolder) return errno.notdir;
      if (node !== null && empties) node.size = 0;
      const fd = Math.max(...open.keys()) + 1;
      open.set(fd, node === null ? {kind: kinds.folder, path} : {kind: kinds.file, bytes: node, at: 0});
      put32(to, fd);
      return 0;
    }),
    path_rename(fd, at, size, toFd, toAt, toSize) {
      const from = pathOf(open.get(fd), at, size);
      const node = nodes.get(from);
      if (!(node instanceof Bytes)) return node === null ? errno.isdir : errno.noent;
      nodes.delete(from);
      nodes.set(pathOf(open.get(toFd), toAt, toSize), node);
      return 0;
    },
    path_unlink_file: inFolder((folder, at, size) =>
      nodes.delete(pathOf(folder, at, size)) ? 0 : errno.noent),
  };
  const imports = {};
  for (const {module: from, name} of WebAssembly.Module.imports(module))
    (imports[from] ??= {})[name] = wasi[name] ?? (() => errno.nosys);
  const instance = new WebAssembly.Instance(module, imports);
  memory = instance.exports.memory;
  let status = 0;
  try {
    instance.exports._start();
  } catch (end) {
    if (!(end instanceof Exit)) throw end;
    status = end.status;
  }
  const left = {};
  for (const [path, node] of nodes) if (node !== null) left[path] = node.text();
  return {status, out: out.text(), err: err.text(), files: left};
}
