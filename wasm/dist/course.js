class Columns {
__destroy_into_raw() {
const ptr = this.__wbg_ptr;
this.__wbg_ptr = 0;
ColumnsFinalization.unregister(this);
return ptr;
}
free() {
const ptr = this.__destroy_into_raw();
wasm.__wbg_columns_free(ptr, 0);
}
feed(piece) {
const ptr0 = passArray8ToWasm0(piece, wasm.__wbindgen_malloc);
const len0 = WASM_VECTOR_LEN;
const ret = wasm.columns_feed(this.__wbg_ptr, ptr0, len0);
if (ret[1]) {
throw takeFromExternrefTable0(ret[0]);
}
}
finish() {
const ret = wasm.columns_finish(this.__wbg_ptr);
if (ret[3]) {
throw takeFromExternrefTable0(ret[2]);
}
let v1;
if (ret[0] !== 0) {
v1 = getArrayU8FromWasm0(ret[0], ret[1]).slice();
wasm.__wbindgen_free(ret[0], ret[1] * 1, 1);
}
return v1;
}
constructor(leaves) {
const ret = wasm.columns_new(leaves);
this.__wbg_ptr = ret;
ColumnsFinalization.register(this, this.__wbg_ptr, this);
return this;
}
}
if (Symbol.dispose) Columns.prototype[Symbol.dispose] = Columns.prototype.free;
class Told {
static __wrap(ptr) {
const obj = Object.create(Told.prototype);
obj.__wbg_ptr = ptr;
ToldFinalization.register(obj, obj.__wbg_ptr, obj);
return obj;
}
__destroy_into_raw() {
const ptr = this.__wbg_ptr;
this.__wbg_ptr = 0;
ToldFinalization.unregister(this);
return ptr;
}
free() {
const ptr = this.__destroy_into_raw();
wasm.__wbg_told_free(ptr, 0);
}
block() {
const ret = wasm.told_block(this.__wbg_ptr);
var v1 = getArrayU8FromWasm0(ret[0], ret[1]).slice();
wasm.__wbindgen_free(ret[0], ret[1] * 1, 1);
return v1;
}
height() {
const ret = wasm.told_height(this.__wbg_ptr);
return ret >>> 0;
}
is_error() {
const ret = wasm.told_is_error(this.__wbg_ptr);
return ret !== 0;
}
plain() {
let deferred1_0;
let deferred1_1;
try {
const ret = wasm.told_plain(this.__wbg_ptr);
deferred1_0 = ret[0];
deferred1_1 = ret[1];
return getStringFromWasm0(ret[0], ret[1]);
} finally {
wasm.__wbindgen_free(deferred1_0, deferred1_1, 1);
}
}
svg() {
let deferred1_0;
let deferred1_1;
try {
const ret = wasm.told_svg(this.__wbg_ptr);
deferred1_0 = ret[0];
deferred1_1 = ret[1];
return getStringFromWasm0(ret[0], ret[1]);
} finally {
wasm.__wbindgen_free(deferred1_0, deferred1_1, 1);
}
}
}
if (Symbol.dispose) Told.prototype[Symbol.dispose] = Told.prototype.free;
class View {
static __wrap(ptr) {
const obj = Object.create(View.prototype);
obj.__wbg_ptr = ptr;
ViewFinalization.register(obj, obj.__wbg_ptr, obj);
return obj;
}
__destroy_into_raw() {
const ptr = this.__wbg_ptr;
this.__wbg_ptr = 0;
ViewFinalization.unregister(this);
return ptr;
}
free() {
const ptr = this.__destroy_into_raw();
wasm.__wbg_view_free(ptr, 0);
}
add(name, bytes) {
let ptr0, len0, ptr1, len1;
try {
ptr0 = passStringToWasm0(name, wasm.__wbindgen_malloc, wasm.__wbindgen_realloc);
len0 = WASM_VECTOR_LEN;
ptr1 = passArray8ToWasm0(bytes, wasm.__wbindgen_malloc);
len1 = WASM_VECTOR_LEN;
} catch (e) {
if (ptr1) { wasm.__wbindgen_free(ptr1, len1 * 1, 1); }
if (ptr0) { wasm.__wbindgen_free(ptr0, len0 * 1, 1); }
throw e;
}
const ret = wasm.view_add(this.__wbg_ptr, ptr0, len0, ptr1, len1);
if (ret[1]) {
throw takeFromExternrefTable0(ret[0]);
}
}
block(item) {
const ret = wasm.view_block(this.__wbg_ptr, item);
var v1 = getArrayU8FromWasm0(ret[0], ret[1]).slice();
wasm.__wbindgen_free(ret[0], ret[1] * 1, 1);
return v1;
}
changed() {
const ret = wasm.view_changed(this.__wbg_ptr);
var v1 = getArrayU8FromWasm0(ret[0], ret[1]).slice();
wasm.__wbindgen_free(ret[0], ret[1] * 1, 1);
return v1;
}
choose(from, to) {
wasm.view_choose(this.__wbg_ptr, from, to);
}
code(language) {
const ret = wasm.view_code(this.__wbg_ptr, language);
let v1;
if (ret[0] !== 0) {
v1 = getStringFromWasm0(ret[0], ret[1]);
wasm.__wbindgen_free(ret[0], ret[1] * 1, 1);
}
return v1;
}
csv() {
let deferred1_0;
let deferred1_1;
try {
const ret = wasm.view_csv(this.__wbg_ptr);
deferred1_0 = ret[0];
deferred1_1 = ret[1];
return getStringFromWasm0(ret[0], ret[1]);
} finally {
wasm.__wbindgen_free(deferred1_0, deferred1_1, 1);
}
}
dark(dark) {
wasm.view_dark(this.__wbg_ptr, isLikeNone(dark) ? 0xFFFFFF : dark ? 1 : 0);
}
edit(source) {
const ptr0 = passStringToWasm0(source, wasm.__wbindgen_malloc, wasm.__wbindgen_realloc);
const len0 = WASM_VECTOR_LEN;
const ret = wasm.view_edit(this.__wbg_ptr, ptr0, len0);
if (ret[1]) {
throw takeFromExternrefTable0(ret[0]);
}
}
find(wanted, words) {
let ptr0, len0, ptr1, len1;
try {
ptr0 = passArray8ToWasm0(wanted, wasm.__wbindgen_malloc);
len0 = WASM_VECTOR_LEN;
ptr1 = passStringToWasm0(words, wasm.__wbindgen_malloc, wasm.__wbindgen_realloc);
len1 = WASM_VECTOR_LEN;
} catch (e) {
if (ptr1) { wasm.__wbindgen_free(ptr1, len1 * 1, 1); }
if (ptr0) { wasm.__wbindgen_free(ptr0, len0 * 1, 1); }
throw e;
}
const ret = wasm.view_find(this.__wbg_ptr, ptr0, len0, ptr1, len1);
if (ret[1]) {
throw takeFromExternrefTable0(ret[0]);
}
}
follow(from, to) {
wasm.view_follow(this.__wbg_ptr, from, to);
}
give(slice, bytes) {
const val2 = +slice;
const ptr0 = passArray8ToWasm0(bytes, wasm.__wbindgen_malloc);
const len0 = WASM_VECTOR_LEN;
wasm.view_give(this.__wbg_ptr, val2, ptr0, len0);
}
go(at) {
wasm.view_go(this.__wbg_ptr, at);
}
go_wall(ns) {
wasm.view_go_wall(this.__wbg_ptr, ns);
}
has_pageable() {
const ret = wasm.view_has_pageable(this.__wbg_ptr);
return ret !== 0;
}
item() {
const ret = wasm.view_item(this.__wbg_ptr);
return ret >>> 0;
}
key(key, shift) {
const val2 = +shift;
const ptr0 = passStringToWasm0(key, wasm.__wbindgen_malloc, wasm.__wbindgen_realloc);
const len0 = WASM_VECTOR_LEN;
wasm.view_key(this.__wbg_ptr, ptr0, len0, val2);
}
labels() {
let deferred1_0;
let deferred1_1;
try {
const ret = wasm.view_labels(this.__wbg_ptr);
deferred1_0 = ret[0];
deferred1_1 = ret[1];
return getStringFromWasm0(ret[0], ret[1]);
} finally {
wasm.__wbindgen_free(deferred1_0, deferred1_1, 1);
}
}
look_back() {
wasm.view_look_back(this.__wbg_ptr);
}
moment(moment) {
wasm.view_moment(this.__wbg_ptr, moment);
}
most_streams() {
const ret = wasm.view_most_streams(this.__wbg_ptr);
return ret >>> 0;
}
names() {
let deferred1_0;
let deferred1_1;
try {
const ret = wasm.view_names(this.__wbg_ptr);
deferred1_0 = ret[0];
deferred1_1 = ret[1];
return getStringFromWasm0(ret[0], ret[1]);
} finally {
wasm.__wbindgen_free(deferred1_0, deferred1_1, 1);
}
}
open(item) {
wasm.view_open(this.__wbg_ptr, item);
}
paint_on(context, dark) {
const ret = wasm.view_paint_on(this.__wbg_ptr, context, dark);
var v1 = getArrayF64FromWasm0(ret[0], ret[1]).slice();
wasm.__wbindgen_free(ret[0], ret[1] * 8, 8);
return v1;
}
replace(block) {
const ptr0 = passArray8ToWasm0(block, wasm.__wbindgen_malloc);
const len0 = WASM_VECTOR_LEN;
const ret = wasm.view_replace(this.__wbg_ptr, ptr0, len0);
if (ret[1]) {
throw takeFromExternrefTable0(ret[0]);
}
}
select(slice, command) {
wasm.view_select(this.__wbg_ptr, isLikeNone(slice) ? Number.MAX_SAFE_INTEGER : (slice) >>> 0, isLikeNone(command) ? Number.MAX_SAFE_INTEGER : (command) >>> 0);
}
show(from, to) {
wasm.view_show(this.__wbg_ptr, from, to);
}
skeleton() {
const ret = wasm.view_skeleton(this.__wbg_ptr);
if (ret[1]) {
throw takeFromExternrefTable0(ret[0]);
}
}
source() {
const ret = wasm.view_source(this.__wbg_ptr);
let v1;
if (ret[0] !== 0) {
v1 = getStringFromWasm0(ret[0], ret[1]);
wasm.__wbindgen_free(ret[0], ret[1] * 1, 1);
}
return v1;
}
times() {
const ret = wasm.view_times(this.__wbg_ptr);
var v1 = getArrayF64FromWasm0(ret[0], ret[1]).slice();
wasm.__wbindgen_free(ret[0], ret[1] * 8, 8);
return v1;
}
told() {
let deferred1_0;
let deferred1_1;
try {
const ret = wasm.view_told(this.__wbg_ptr);
deferred1_0 = ret[0];
deferred1_1 = ret[1];
return getStringFromWasm0(ret[0], ret[1]);
} finally {
wasm.__wbindgen_free(deferred1_0, deferred1_1, 1);
}
}
wall() {
const ret = wasm.view_wall(this.__wbg_ptr);
return ret[0] === 0 ? undefined : ret[1];
}
what_if(changes) {
let deferred3_0;
let deferred3_1;
try {
const ptr0 = passStringToWasm0(changes, wasm.__wbindgen_malloc, wasm.__wbindgen_realloc);
const len0 = WASM_VECTOR_LEN;
const ret = wasm.view_what_if(this.__wbg_ptr, ptr0, len0);
var ptr2 = ret[0];
var len2 = ret[1];
if (ret[3]) {
ptr2 = 0; len2 = 0;
throw takeFromExternrefTable0(ret[2]);
}
deferred3_0 = ptr2;
deferred3_1 = len2;
return getStringFromWasm0(ptr2, len2);
} finally {
wasm.__wbindgen_free(deferred3_0, deferred3_1, 1);
}
}
}
if (Symbol.dispose) View.prototype[Symbol.dispose] = View.prototype.free;
function check(program, typical) {
let deferred4_0;
let deferred4_1;
try {
const val2 = +typical;
const ptr0 = passStringToWasm0(program, wasm.__wbindgen_malloc, wasm.__wbindgen_realloc);
const len0 = WASM_VECTOR_LEN;
const ret = wasm.check(ptr0, len0, val2);
var ptr3 = ret[0];
var len3 = ret[1];
if (ret[3]) {
ptr3 = 0; len3 = 0;
throw takeFromExternrefTable0(ret[2]);
}
deferred4_0 = ptr3;
deferred4_1 = len3;
return getStringFromWasm0(ptr3, len3);
} finally {
wasm.__wbindgen_free(deferred4_0, deferred4_1, 1);
}
}
function lesson(verb, source, data) {
let ptr0, len0, ptr1, len1, ptr2, len2;
try {
ptr0 = passStringToWasm0(verb, wasm.__wbindgen_malloc, wasm.__wbindgen_realloc);
len0 = WASM_VECTOR_LEN;
ptr1 = passStringToWasm0(source, wasm.__wbindgen_malloc, wasm.__wbindgen_realloc);
len1 = WASM_VECTOR_LEN;
ptr2 = passStringToWasm0(data, wasm.__wbindgen_malloc, wasm.__wbindgen_realloc);
len2 = WASM_VECTOR_LEN;
} catch (e) {
if (ptr2) { wasm.__wbindgen_free(ptr2, len2 * 1, 1); }
if (ptr1) { wasm.__wbindgen_free(ptr1, len1 * 1, 1); }
if (ptr0) { wasm.__wbindgen_free(ptr0, len0 * 1, 1); }
throw e;
}
const ret = wasm.lesson(ptr0, len0, ptr1, len1, ptr2, len2);
return Told.__wrap(ret);
}
function machines() {
let deferred1_0;
let deferred1_1;
try {
const ret = wasm.machines();
deferred1_0 = ret[0];
deferred1_1 = ret[1];
return getStringFromWasm0(ret[0], ret[1]);
} finally {
wasm.__wbindgen_free(deferred1_0, deferred1_1, 1);
}
}
function mount(place, block, alone) {
const val2 = +alone;
const ptr0 = passArray8ToWasm0(block, wasm.__wbindgen_malloc);
const len0 = WASM_VECTOR_LEN;
const ret = wasm.mount(place, ptr0, len0, val2);
if (ret[2]) {
throw takeFromExternrefTable0(ret[1]);
}
return View.__wrap(ret[0]);
}
function simulate(program, machine) {
let deferred4_0;
let deferred4_1;
try {
let ptr0, len0, ptr1, len1;
try {
ptr0 = passStringToWasm0(program, wasm.__wbindgen_malloc, wasm.__wbindgen_realloc);
len0 = WASM_VECTOR_LEN;
ptr1 = passStringToWasm0(machine, wasm.__wbindgen_malloc, wasm.__wbindgen_realloc);
len1 = WASM_VECTOR_LEN;
} catch (e) {
if (ptr1) { wasm.__wbindgen_free(ptr1, len1 * 1, 1); }
if (ptr0) { wasm.__wbindgen_free(ptr0, len0 * 1, 1); }
throw e;
}
const ret = wasm.simulate(ptr0, len0, ptr1, len1);
var ptr3 = ret[0];
var len3 = ret[1];
if (ret[3]) {
ptr3 = 0; len3 = 0;
throw takeFromExternrefTable0(ret[2]);
}
deferred4_0 = ptr3;
deferred4_1 = len3;
return getStringFromWasm0(ptr3, len3);
} finally {
wasm.__wbindgen_free(deferred4_0, deferred4_1, 1);
}
}
function version() {
let deferred1_0;
let deferred1_1;
try {
const ret = wasm.version();
deferred1_0 = ret[0];
deferred1_1 = ret[1];
return getStringFromWasm0(ret[0], ret[1]);
} finally {
wasm.__wbindgen_free(deferred1_0, deferred1_1, 1);
}
}
function __wbg_get_imports() {
const import0 = {
__proto__: null,
__wbg___wbindgen_is_undefined_be5b34249ff1fc15: function(arg0) {
const ret = arg0 === undefined;
return ret;
},
__wbg___wbindgen_throw_4c88d8bf264fd984: function(arg0, arg1) {
throw new Error(getStringFromWasm0(arg0, arg1));
},
__wbg__wbg_cb_unref_09736879a3f67559: function(arg0) {
arg0._wbg_cb_unref();
},
__wbg_addEventListener_f2d27251d333a631: function() { return handleError(function (arg0, arg1, arg2, arg3, arg4) {
arg0.addEventListener(getStringFromWasm0(arg1, arg2), arg3, arg4);
}, arguments); },
__wbg_add_cf82c8d153d93ae1: function() { return handleError(function (arg0, arg1, arg2) {
arg0.add(getStringFromWasm0(arg1, arg2));
}, arguments); },
__wbg_altKey_423da1d67b588078: function(arg0) {
const ret = arg0.altKey;
return ret;
},
__wbg_appendChild_dbf7ad2f48413560: function() { return handleError(function (arg0, arg1) {
const ret = arg0.appendChild(arg1);
return ret;
}, arguments); },
__wbg_arcTo_a347b807c468785d: function() { return handleError(function (arg0, arg1, arg2, arg3, arg4, arg5) {
arg0.arcTo(arg1, arg2, arg3, arg4, arg5);
}, arguments); },
__wbg_beginPath_ab690dc0c7efe6dc: function(arg0) {
arg0.beginPath();
},
__wbg_button_653210370515dd71: function(arg0) {
const ret = arg0.button;
return ret;
},
__wbg_children_5767547ca7e1c276: function(arg0) {
const ret = arg0.children;
return ret;
},
__wbg_classList_97e966c261669b85: function(arg0) {
const ret = arg0.classList;
return ret;
},
__wbg_clientHeight_b40e8971aed9fa2b: function(arg0) {
const ret = arg0.clientHeight;
return ret;
},
__wbg_clientWidth_269ea87f17b863bf: function(arg0) {
const ret = arg0.clientWidth;
return ret;
},
__wbg_clientX_7207eed549b03753: function(arg0) {
const ret = arg0.clientX;
return ret;
},
__wbg_clientY_3371139730cd6f74: function(arg0) {
const ret = arg0.clientY;
return ret;
},
__wbg_closePath_e9e11e034c5d75a3: function(arg0) {
arg0.closePath();
},
__wbg_closest_39824b16065066bc: function() { return handleError(function (arg0, arg1, arg2) {
const ret = arg0.closest(getStringFromWasm0(arg1, arg2));
return isLikeNone(ret) ? 0 : addToExternrefTable0(ret);
}, arguments); },
__wbg_createElement_de4a31ed2fb252be: function() { return handleError(function (arg0, arg1, arg2) {
const ret = arg0.createElement(getStringFromWasm0(arg1, arg2));
return ret;
}, arguments); },
__wbg_createTextNode_2b48c3fc75dfcc67: function(arg0, arg1, arg2) {
const ret = arg0.createTextNode(getStringFromWasm0(arg1, arg2));
return ret;
},
__wbg_ctrlKey_97b77227d0599549: function(arg0) {
const ret = arg0.ctrlKey;
return ret;
},
__wbg_ctrlKey_b7978e4cf78dc62b: function(arg0) {
const ret = arg0.ctrlKey;
return ret;
},
__wbg_deltaMode_d2ba7673c0228446: function(arg0) {
const ret = arg0.deltaMode;
return ret;
},
__wbg_deltaX_6ad2483f3f4c0349: function(arg0) {
const ret = arg0.deltaX;
return ret;
},
__wbg_deltaY_37dc0a54748a91f4: function(arg0) {
const ret = arg0.deltaY;
return ret;
},
__wbg_devicePixelRatio_90ee4024cee5d5f4: function(arg0) {
const ret = arg0.devicePixelRatio;
return ret;
},
__wbg_dispatchEvent_a2af00ffae37e129: function() { return handleError(function (arg0, arg1) {
const ret = arg0.dispatchEvent(arg1);
return ret;
}, arguments); },
__wbg_fillRect_e1f0b9915220348b: function(arg0, arg1, arg2, arg3, arg4) {
arg0.fillRect(arg1, arg2, arg3, arg4);
},
__wbg_fillText_89d353a9ad9f4a1a: function() { return handleError(function (arg0, arg1, arg2, arg3, arg4) {
arg0.fillText(getStringFromWasm0(arg1, arg2), arg3, arg4);
}, arguments); },
__wbg_fill_cb36fe21a8d46cd7: function(arg0) {
arg0.fill();
},
__wbg_getAttribute_c7b80d4010284561: function(arg0, arg1, arg2, arg3) {
const ret = arg1.getAttribute(getStringFromWasm0(arg2, arg3));
var ptr1 = isLikeNone(ret) ? 0 : passStringToWasm0(ret, wasm.__wbindgen_malloc, wasm.__wbindgen_realloc);
var len1 = WASM_VECTOR_LEN;
getDataViewMemory0().setInt32((arg0 >>> 0) + 4 * 1, len1, true);
getDataViewMemory0().setInt32((arg0 >>> 0) + 4 * 0, ptr1, true);
},
__wbg_getBoundingClientRect_329ca748ec918b0c: function(arg0) {
const ret = arg0.getBoundingClientRect();
return ret;
},
__wbg_getContext_d93f904b714852ae: function() { return handleError(function (arg0, arg1, arg2) {
const ret = arg0.getContext(getStringFromWasm0(arg1, arg2));
return isLikeNone(ret) ? 0 : addToExternrefTable0(ret);
}, arguments); },
__wbg_height_ac6f1c3f49c13fe2: function(arg0) {
const ret = arg0.height;
return ret;
},
__wbg_hidden_a24b2caa480655e6: function(arg0) {
const ret = arg0.hidden;
return ret;
},
__wbg_instanceof_Element_05dbb22ded594343: function(arg0) {
let result;
try {
result = arg0 instanceof Element;
} catch (_) {
result = false;
}
const ret = result;
return ret;
},
__wbg_instanceof_HtmlSelectElement_e8e746c4e56224c9: function(arg0) {
let result;
try {
result = arg0 instanceof HTMLSelectElement;
} catch (_) {
result = false;
}
const ret = result;
return ret;
},
__wbg_instanceof_Window_5cf453f5639aa1a2: function(arg0) {
let result;
try {
result = arg0 instanceof Window;
} catch (_) {
result = false;
}
const ret = result;
return ret;
},
__wbg_item_66d2ef77cbc53343: function(arg0, arg1) {
const ret = arg0.item(arg1 >>> 0);
return isLikeNone(ret) ? 0 : addToExternrefTable0(ret);
},
__wbg_key_76125a528069feff: function(arg0, arg1) {
const ret = arg1.key;
const ptr1 = passStringToWasm0(ret, wasm.__wbindgen_malloc, wasm.__wbindgen_realloc);
const len1 = WASM_VECTOR_LEN;
getDataViewMemory0().setInt32((arg0 >>> 0) + 4 * 1, len1, true);
getDataViewMemory0().setInt32((arg0 >>> 0) + 4 * 0, ptr1, true);
},
__wbg_left_9df47701ff317a35: function(arg0) {
const ret = arg0.left;
return ret;
},
__wbg_length_9f82f041dce0ac51: function(arg0) {
const ret = arg0.length;
return ret;
},
__wbg_lineTo_91262b25fb37c461: function(arg0, arg1, arg2) {
arg0.lineTo(arg1, arg2);
},
__wbg_matchMedia_b53687d22ec43649: function() { return handleError(function (arg0, arg1, arg2) {
const ret = arg0.matchMedia(getStringFromWasm0(arg1, arg2));
return isLikeNone(ret) ? 0 : addToExternrefTable0(ret);
}, arguments); },
__wbg_matches_a47c420646498c64: function(arg0) {
const ret = arg0.matches;
return ret;
},
__wbg_matches_f3a9298a593d4ea9: function() { return handleError(function (arg0, arg1, arg2) {
const ret = arg0.matches(getStringFromWasm0(arg1, arg2));
return ret;
}, arguments); },
__wbg_metaKey_33c588e07fd74724: function(arg0) {
const ret = arg0.metaKey;
return ret;
},
__wbg_moveTo_b4cd3b0b7e1585a5: function(arg0, arg1, arg2) {
arg0.moveTo(arg1, arg2);
},
__wbg_new_bdf613c6b0b3d702: function() { return handleError(function (arg0) {
const ret = new ResizeObserver(arg0);
return ret;
}, arguments); },
__wbg_new_cd4348290afae586: function() {
const ret = new Object();
return ret;
},
__wbg_new_f6667bebfb038bfc: function() { return handleError(function (arg0, arg1) {
const ret = new Event(getStringFromWasm0(arg0, arg1));
return ret;
}, arguments); },
__wbg_observe_0bd2cd721b4e32da: function(arg0, arg1) {
arg0.observe(arg1);
},
__wbg_offsetHeight_91ca9e2be23502e5: function(arg0) {
const ret = arg0.offsetHeight;
return ret;
},
__wbg_offsetWidth_ec7d4ad6adc7e29d: function(arg0) {
const ret = arg0.offsetWidth;
return ret;
},
__wbg_ownerDocument_adefd47fd596fe80: function(arg0) {
const ret = arg0.ownerDocument;
return isLikeNone(ret) ? 0 : addToExternrefTable0(ret);
},
__wbg_pointerId_79742963a7afa662: function(arg0) {
const ret = arg0.pointerId;
return ret;
},
__wbg_preventDefault_cfb06b02e7406899: function(arg0) {
arg0.preventDefault();
},
__wbg_querySelector_1555c239948f2bf0: function() { return handleError(function (arg0, arg1, arg2) {
const ret = arg0.querySelector(getStringFromWasm0(arg1, arg2));
return isLikeNone(ret) ? 0 : addToExternrefTable0(ret);
}, arguments); },
__wbg_removeAttribute_735f25a801a701e1: function() { return handleError(function (arg0, arg1, arg2) {
arg0.removeAttribute(getStringFromWasm0(arg1, arg2));
}, arguments); },
__wbg_remove_12e9b1deffec7d2f: function() { return handleError(function (arg0, arg1, arg2) {
arg0.remove(getStringFromWasm0(arg1, arg2));
}, arguments); },
__wbg_requestAnimationFrame_9ba49d36a19ca83c: function() { return handleError(function (arg0, arg1) {
const ret = arg0.requestAnimationFrame(arg1);
return ret;
}, arguments); },
__wbg_scrollTop_960220fc942d86fa: function(arg0) {
const ret = arg0.scrollTop;
return ret;
},
__wbg_selectedIndex_ab2519f4f8a79f18: function(arg0) {
const ret = arg0.selectedIndex;
return ret;
},
__wbg_setAttribute_f75317b2b5cabfb4: function() { return handleError(function (arg0, arg1, arg2, arg3, arg4) {
arg0.setAttribute(getStringFromWasm0(arg1, arg2), getStringFromWasm0(arg3, arg4));
}, arguments); },
__wbg_setPointerCapture_49f83ce093912db8: function() { return handleError(function (arg0, arg1) {
arg0.setPointerCapture(arg1);
}, arguments); },
__wbg_setProperty_3fe74e09d53acb0b: function() { return handleError(function (arg0, arg1, arg2, arg3, arg4) {
arg0.setProperty(getStringFromWasm0(arg1, arg2), getStringFromWasm0(arg3, arg4));
}, arguments); },
__wbg_setTransform_ee8f5d076fcdec0f: function() { return handleError(function (arg0, arg1, arg2, arg3, arg4, arg5, arg6) {
arg0.setTransform(arg1, arg2, arg3, arg4, arg5, arg6);
}, arguments); },
__wbg_set_className_fcd90345b3a090af: function(arg0, arg1, arg2) {
arg0.className = getStringFromWasm0(arg1, arg2);
},
__wbg_set_fillStyle_95fde67582a9c695: function(arg0, arg1, arg2) {
arg0.fillStyle = getStringFromWasm0(arg1, arg2);
},
__wbg_set_font_aa0c0c514c73a5fa: function(arg0, arg1, arg2) {
arg0.font = getStringFromWasm0(arg1, arg2);
},
__wbg_set_height_ae0610d318c3428c: function(arg0, arg1) {
arg0.height = arg1 >>> 0;
},
__wbg_set_hidden_7efdf3958dc524e5: function(arg0, arg1) {
arg0.hidden = arg1 !== 0;
},
__wbg_set_innerHTML_a9d3a267967b5117: function(arg0, arg1, arg2) {
arg0.innerHTML = getStringFromWasm0(arg1, arg2);
},
__wbg_set_lineWidth_12f039d09cd36dad: function(arg0, arg1) {
arg0.lineWidth = arg1;
},
__wbg_set_passive_ac655beafedbb0a5: function(arg0, arg1) {
arg0.passive = arg1 !== 0;
},
__wbg_set_scrollTop_9abe010024623249: function(arg0, arg1) {
arg0.scrollTop = arg1;
},
__wbg_set_strokeStyle_b90c8a6e0d37c80d: function(arg0, arg1, arg2) {
arg0.strokeStyle = getStringFromWasm0(arg1, arg2);
},
__wbg_set_textAlign_0a32c51401892c11: function(arg0, arg1, arg2) {
arg0.textAlign = getStringFromWasm0(arg1, arg2);
},
__wbg_set_textBaseline_ff2e3c5c84684b23: function(arg0, arg1, arg2) {
arg0.textBaseline = getStringFromWasm0(arg1, arg2);
},
__wbg_set_textContent_0177b2a6d9293c2c: function(arg0, arg1, arg2) {
arg0.textContent = arg1 === 0 ? undefined : getStringFromWasm0(arg1, arg2);
},
__wbg_set_width_5f89a551b5472887: function(arg0, arg1) {
arg0.width = arg1 >>> 0;
},
__wbg_shiftKey_6a84be2563ae8a55: function(arg0) {
const ret = arg0.shiftKey;
return ret;
},
__wbg_shiftKey_a6ce93ef743d5834: function(arg0) {
const ret = arg0.shiftKey;
return ret;
},
__wbg_static_accessor_GLOBAL_THIS_003ee833af9699fc: function() {
const ret = typeof globalThis === 'undefined' ? undefined : globalThis;
return isLikeNone(ret) ? 0 : addToExternrefTable0(ret);
},
__wbg_static_accessor_GLOBAL_e4293fb22cbe77da: function() {
const ret = typeof global === 'undefined' ? undefined : global;
return isLikeNone(ret) ? 0 : addToExternrefTable0(ret);
},
__wbg_static_accessor_SELF_53bb20457401453d: function() {
const ret = typeof self === 'undefined' ? undefined : self;
return isLikeNone(ret) ? 0 : addToExternrefTable0(ret);
},
__wbg_static_accessor_WINDOW_b5e0810bfecb7feb: function() {
const ret = typeof window === 'undefined' ? undefined : window;
return isLikeNone(ret) ? 0 : addToExternrefTable0(ret);
},
__wbg_stroke_19fa3f3ec093bc25: function(arg0) {
arg0.stroke();
},
__wbg_style_f499e599ac70277f: function(arg0) {
const ret = arg0.style;
return ret;
},
__wbg_target_e5cd9c7aa87dd8df: function(arg0) {
const ret = arg0.target;
return isLikeNone(ret) ? 0 : addToExternrefTable0(ret);
},
__wbg_textContent_240d7f8264a6246e: function(arg0, arg1) {
const ret = arg1.textContent;
var ptr1 = isLikeNone(ret) ? 0 : passStringToWasm0(ret, wasm.__wbindgen_malloc, wasm.__wbindgen_realloc);
var len1 = WASM_VECTOR_LEN;
getDataViewMemory0().setInt32((arg0 >>> 0) + 4 * 1, len1, true);
getDataViewMemory0().setInt32((arg0 >>> 0) + 4 * 0, ptr1, true);
},
__wbg_toggle_4ad9c24ed28f124e: function() { return handleError(function (arg0, arg1, arg2, arg3) {
const ret = arg0.toggle(getStringFromWasm0(arg1, arg2), arg3 !== 0);
return ret;
}, arguments); },
__wbg_top_2d45cda4e060d8bf: function(arg0) {
const ret = arg0.top;
return ret;
},
__wbg_width_babc5dc7654771b1: function(arg0) {
const ret = arg0.width;
return ret;
},
__wbindgen_generic_0000000000000001: function(arg0, arg1) {
const ret = makeMutClosure(arg0, arg1, wasm_bindgen_e339f1fdbde1a20e___convert__closures_____invoke___web_sys_16fb8b7dc141141a___features__gen_Event__Event______true_);
return ret;
},
__wbindgen_generic_0000000000000002: function(arg0, arg1) {
const ret = makeMutClosure(arg0, arg1, wasm_bindgen_e339f1fdbde1a20e___convert__closures_____invoke_______true_);
return ret;
},
__wbindgen_generic_0000000000000003: function(arg0, arg1) {
const ret = getStringFromWasm0(arg0, arg1);
return ret;
},
__wbindgen_init_externref_table: function() {
const table = wasm.__wbindgen_externrefs;
table.set(0, undefined);
table.set(1024, undefined);
table.set(1025, null);
table.set(1026, true);
table.set(1027, false);
},
};
return {
__proto__: null,
"./course_bg.js": import0,
};
}
function wasm_bindgen_e339f1fdbde1a20e___convert__closures_____invoke_______true_(arg0, arg1) {
wasm.wasm_bindgen_e339f1fdbde1a20e___convert__closures_____invoke_______true_(arg0, arg1);
}
function wasm_bindgen_e339f1fdbde1a20e___convert__closures_____invoke___web_sys_16fb8b7dc141141a___features__gen_Event__Event______true_(arg0, arg1, arg2) {
wasm.wasm_bindgen_e339f1fdbde1a20e___convert__closures_____invoke___web_sys_16fb8b7dc141141a___features__gen_Event__Event______true_(arg0, arg1, arg2);
}
const ColumnsFinalization = (typeof FinalizationRegistry === 'undefined')
? { register: () => {}, unregister: () => {} }
: new FinalizationRegistry(ptr => wasm.__wbg_columns_free(ptr, 1));
const ToldFinalization = (typeof FinalizationRegistry === 'undefined')
? { register: () => {}, unregister: () => {} }
: new FinalizationRegistry(ptr => wasm.__wbg_told_free(ptr, 1));
const ViewFinalization = (typeof FinalizationRegistry === 'undefined')
? { register: () => {}, unregister: () => {} }
: new FinalizationRegistry(ptr => wasm.__wbg_view_free(ptr, 1));
function addToExternrefTable0(obj) {
const idx = wasm.__externref_table_alloc();
wasm.__wbindgen_externrefs.set(idx, obj);
return idx;
}
const CLOSURE_DTORS = (typeof FinalizationRegistry === 'undefined')
? { register: () => {}, unregister: () => {} }
: new FinalizationRegistry(state => wasm.__wbindgen_destroy_closure(state.a, state.b));
function getArrayF64FromWasm0(ptr, len) {
ptr = ptr >>> 0;
return getFloat64ArrayMemory0().subarray(ptr / 8, ptr / 8 + len);
}
function getArrayU8FromWasm0(ptr, len) {
ptr = ptr >>> 0;
return getUint8ArrayMemory0().subarray(ptr / 1, ptr / 1 + len);
}
let cachedDataViewMemory0 = null;
function getDataViewMemory0() {
if (cachedDataViewMemory0 === null || cachedDataViewMemory0.buffer.detached === true || (cachedDataViewMemory0.buffer.detached === undefined && cachedDataViewMemory0.buffer !== wasm.memory.buffer)) {
cachedDataViewMemory0 = new DataView(wasm.memory.buffer);
}
return cachedDataViewMemory0;
}
let cachedFloat64ArrayMemory0 = null;
function getFloat64ArrayMemory0() {
if (cachedFloat64ArrayMemory0 === null || cachedFloat64ArrayMemory0.byteLength === 0) {
cachedFloat64ArrayMemory0 = new Float64Array(wasm.memory.buffer);
}
return cachedFloat64ArrayMemory0;
}
function getStringFromWasm0(ptr, len) {
ptr = ptr >>> 0;
return decodeText(getUint8ArrayMemory0().subarray(ptr, ptr + len));
}
let cachedUint8ArrayMemory0 = null;
function getUint8ArrayMemory0() {
if (cachedUint8ArrayMemory0 === null || cachedUint8ArrayMemory0.byteLength === 0) {
cachedUint8ArrayMemory0 = new Uint8Array(wasm.memory.buffer);
}
return cachedUint8ArrayMemory0;
}
function handleError(f, args) {
try {
return f.apply(this, args);
} catch (e) {
const idx = addToExternrefTable0(e);
wasm.__wbindgen_exn_store(idx);
}
}
function isLikeNone(x) {
return x === undefined || x === null;
}
function makeMutClosure(arg0, arg1, f) {
const state = { a: arg0, b: arg1, cnt: 1 };
const real = (...args) => {
state.cnt++;
const a = state.a;
state.a = 0;
try {
return f(a, state.b, ...args);
} finally {
state.a = a;
real._wbg_cb_unref();
}
};
real._wbg_cb_unref = () => {
if (--state.cnt === 0) {
wasm.__wbindgen_destroy_closure(state.a, state.b);
state.a = 0;
CLOSURE_DTORS.unregister(state);
}
};
CLOSURE_DTORS.register(real, state, state);
return real;
}
function passArray8ToWasm0(arg, malloc) {
const ptr = malloc(arg.length * 1, 1) >>> 0;
getUint8ArrayMemory0().set(arg, ptr / 1);
WASM_VECTOR_LEN = arg.length;
return ptr;
}
function passStringToWasm0(arg, malloc, realloc) {
if (realloc === undefined) {
const buf = cachedTextEncoder.encode(arg);
const ptr = malloc(buf.length, 1) >>> 0;
getUint8ArrayMemory0().subarray(ptr, ptr + buf.length).set(buf);
WASM_VECTOR_LEN = buf.length;
return ptr;
}
let len = arg.length;
let ptr = malloc(len, 1) >>> 0;
const mem = getUint8ArrayMemory0();
let offset = 0;
for (; offset < len; offset++) {
const code = arg.charCodeAt(offset);
if (code > 0x7F) break;
mem[ptr + offset] = code;
}
if (offset !== len) {
if (offset !== 0) {
arg = arg.slice(offset);
}
ptr = realloc(ptr, len, len = offset + arg.length * 3, 1) >>> 0;
const view = getUint8ArrayMemory0().subarray(ptr + offset, ptr + len);
const ret = cachedTextEncoder.encodeInto(arg, view);
offset += ret.written;
ptr = realloc(ptr, len, offset, 1) >>> 0;
}
WASM_VECTOR_LEN = offset;
return ptr;
}
function takeFromExternrefTable0(idx) {
const value = wasm.__wbindgen_externrefs.get(idx);
wasm.__externref_table_dealloc(idx);
return value;
}
let cachedTextDecoder = new TextDecoder('utf-8', { ignoreBOM: true });
cachedTextDecoder.decode();
const MAX_SAFARI_DECODE_BYTES = 2146435072;
let numBytesDecoded = 0;
function decodeText(bytes) {
numBytesDecoded += bytes.length;
if (numBytesDecoded >= MAX_SAFARI_DECODE_BYTES) {
cachedTextDecoder = new TextDecoder('utf-8', { ignoreBOM: true });
cachedTextDecoder.decode();
numBytesDecoded = bytes.length;
}
return cachedTextDecoder.decode(bytes);
}
const cachedTextEncoder = new TextEncoder();
if (!('encodeInto' in cachedTextEncoder)) {
cachedTextEncoder.encodeInto = function (arg, view) {
const buf = cachedTextEncoder.encode(arg);
view.set(buf);
return {
read: arg.length,
written: buf.length
};
};
}
let WASM_VECTOR_LEN = 0;
let wasmModule, wasmInstance, wasm;
function __wbg_finalize_init(instance, module) {
wasmInstance = instance;
wasm = instance.exports;
wasmModule = module;
cachedDataViewMemory0 = null;
cachedFloat64ArrayMemory0 = null;
cachedUint8ArrayMemory0 = null;
wasm.__wbindgen_start();
return wasm;
}
async function __wbg_load(module, imports) {
if (typeof Response === 'function' && module instanceof Response) {
if (!module.ok) {
throw new Error(`failed to fetch Wasm: ${module.status} ${module.statusText} fetching '${module.url}'`);
}
if (typeof WebAssembly.instantiateStreaming === 'function') {
try {
return await WebAssembly.instantiateStreaming(module, imports);
} catch (e) {
const validResponse = expectedResponseType(module.type);
if (validResponse && module.headers.get('Content-Type') !== 'application/wasm') {
console.warn("`WebAssembly.instantiateStreaming` failed because your server does not serve Wasm with `application/wasm` MIME type. Falling back to `WebAssembly.instantiate` which is slower. Original error:\n", e);
} else { throw e; }
}
}
const bytes = await module.arrayBuffer();
return await WebAssembly.instantiate(bytes, imports);
} else {
const instance = await WebAssembly.instantiate(module, imports);
if (instance instanceof WebAssembly.Instance) {
return { instance, module };
} else {
return instance;
}
}
function expectedResponseType(type) {
switch (type) {
case 'basic': case 'cors': case 'default': return true;
}
return false;
}
}
function initSync(module) {
if (wasm !== undefined) return wasm;
if (module !== undefined) {
if (Object.getPrototypeOf(module) === Object.prototype) {
({module} = module)
} else {
console.warn('using deprecated parameters for `initSync()`; pass a single object instead')
}
}
const imports = __wbg_get_imports();
if (!(module instanceof WebAssembly.Module)) {
module = new WebAssembly.Module(module);
}
const instance = new WebAssembly.Instance(module, imports);
return __wbg_finalize_init(instance, module);
}
let __wbg_init_promise;
async function __wbg_init(module_or_path) {
if (wasm !== undefined) return wasm;
if (__wbg_init_promise === undefined) {
__wbg_init_promise = __wbg_init_once(module_or_path);
__wbg_init_promise.catch(() => { __wbg_init_promise = undefined; });
}
return __wbg_init_promise;
}
async function __wbg_init_once(module_or_path) {
if (module_or_path !== undefined) {
if (Object.getPrototypeOf(module_or_path) === Object.prototype) {
({module_or_path} = module_or_path)
} else {
console.warn('using deprecated parameters for the initialization function; pass a single object instead')
}
}
const imports = __wbg_get_imports();
if (typeof module_or_path === 'string' || (typeof Request === 'function' && module_or_path instanceof Request) || (typeof URL === 'function' && module_or_path instanceof URL)) {
module_or_path = fetch(module_or_path);
}
const { instance, module } = await __wbg_load(await module_or_path, imports);
return __wbg_finalize_init(instance, module);
}
