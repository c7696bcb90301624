#pragma once

// Of what PyTorch 2.15 wrote of a step of GPT-2 in autocast to bf16, by its CUDA code on a device
// that runs nothing: a linear layer, attention, a backward and an optimizer's operator.

inline constexpr const char* profiled_events = R"(
{"ph":"X","cat":"cpu_op","name":"aten::addmm","pid":1,"tid":5,"ts":1414.958,"dur":144.549,"args":{"External id":52,"Input Dims":[[192],[64,64],[64,192],[],[]]}},
{"ph":"X","cat":"cpu_op","name":"aten::to","pid":1,"tid":5,"ts":1421.431,"dur":49.392,"args":{"External id":53,"Input Dims":[[64,192],[],[],[],[]]}},
{"ph":"X","cat":"cpu_op","name":"aten::_to_copy","pid":1,"tid":5,"ts":1424.176,"dur":46.366,"args":{"External id":54,"Input Dims":[[64,192],[],[],[],[],[],[]]}},
{"ph":"X","cat":"cpu_op","name":"aten::empty_strided","pid":1,"tid":5,"ts":1433.854,"dur":13.605,"args":{"External id":55,"Input Dims":[[],[],[],[],[],[]]}},
{"ph":"X","cat":"cpu_op","name":"aten::copy_","pid":1,"tid":5,"ts":1451.176,"dur":17.122,"args":{"External id":56,"Input Dims":[[64,192],[64,192],[]]}},
{"ph":"X","cat":"cpu_op","name":"aten::to","pid":1,"tid":5,"ts":1473.577,"dur":17.332,"args":{"External id":57,"Input Dims":[[64,64],[],[],[],[]]}},
{"ph":"X","cat":"cpu_op","name":"aten::_to_copy","pid":1,"tid":5,"ts":1474.851,"dur":15.849,"args":{"External id":58,"Input Dims":[[64,64],[],[],[],[],[],[]]}},
{"ph":"X","cat":"cpu_op","name":"aten::empty_strided","pid":1,"tid":5,"ts":1478.877,"dur":5.25,"args":{"External id":59,"Input Dims":[[],[],[],[],[],[]]}},
{"ph":"X","cat":"cpu_op","name":"aten::copy_","pid":1,"tid":5,"ts":1485.64,"dur":3.126,"args":{"External id":60,"Input Dims":[[64,64],[64,64],[]]}},
{"ph":"X","cat":"cpu_op","name":"aten::to","pid":1,"tid":5,"ts":1492.983,"dur":17.152,"args":{"External id":61,"Input Dims":[[192],[],[],[],[]]}},
{"ph":"X","cat":"cpu_op","name":"aten::_to_copy","pid":1,"tid":5,"ts":1494.227,"dur":15.769,"args":{"External id":62,"Input Dims":[[192],[],[],[],[],[],[]]}},
{"ph":"X","cat":"cpu_op","name":"aten::empty_strided","pid":1,"tid":5,"ts":1498.675,"dur":5.029,"args":{"External id":63,"Input Dims":[[],[],[],[],[],[]]}},
{"ph":"X","cat":"cpu_op","name":"aten::copy_","pid":1,"tid":5,"ts":1505.598,"dur":3.136,"args":{"External id":64,"Input Dims":[[192],[192],[]]}},
{"ph":"X","cat":"cpu_op","name":"aten::addmm","pid":1,"tid":5,"ts":1512.73,"dur":45.966,"args":{"External id":65,"Input Dims":[[192],[64,64],[64,192],[],[]]}},
{"ph":"X","cat":"cpu_op","name":"aten::_scaled_dot_product_flash_attention","pid":1,"tid":5,"ts":2183.411,"dur":183.582,"args":{"External id":106,"Input Dims":[[2,4,32,16],[2,4,32,16],[2,4,32,16],[],[],[],[]]}},
{"ph":"X","cat":"cpu_op","name":"aten::_flash_attention_forward","pid":1,"tid":5,"ts":2289.229,"dur":61.374,"args":{"External id":113,"Input Dims":[[2,32,4,16],[2,32,4,16],[2,32,4,16],[],[],[],[],[],[],[],[],[],[],[],[],[],[]]}},
{"ph":"X","cat":"cpu_op","name":"aten::empty_like","pid":1,"tid":5,"ts":2297.975,"dur":15.78,"args":{"External id":114,"Input Dims":[[2,32,4,16],[],[],[],[],[]]}},
{"ph":"X","cat":"cpu_op","name":"aten::empty_strided","pid":1,"tid":5,"ts":2302.554,"dur":10.66,"args":{"External id":115,"Input Dims":[[],[],[],[],[],[]]}},
{"ph":"X","cat":"cpu_op","name":"autograd::engine::evaluate_function: AddmmBackward0","pid":1,"tid":9,"ts":49726.271,"dur":107.581,"args":{"External id":603}},
{"ph":"X","cat":"cpu_op","name":"AddmmBackward0","pid":1,"tid":9,"ts":49727.133,"dur":32.861,"args":{"External id":604,"Input Dims":[[64,64]]}},
{"ph":"X","cat":"cpu_op","name":"aten::t","pid":1,"tid":9,"ts":49730.498,"dur":6.272,"args":{"External id":605,"Input Dims":[[256,64]]}},
{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1,"tid":9,"ts":49737.912,"dur":13.265,"args":{"External id":608,"Input Dims":[[64,64],[64,256]]}},
{"ph":"X","cat":"cpu_op","name":"aten::t","pid":1,"tid":9,"ts":49752.64,"dur":2.745,"args":{"External id":609,"Input Dims":[[64,256]]}},
{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1,"tid":9,"ts":49756.366,"dur":3.116,"args":{"External id":612,"Input Dims":[[256,64],[64,64]]}},
{"ph":"X","cat":"cpu_op","name":"aten::sum","pid":1,"tid":9,"ts":49778.798,"dur":34.124,"args":{"External id":613,"Input Dims":[[64,64],[],[],[]]}},
{"ph":"X","cat":"cpu_op","name":"aten::view","pid":1,"tid":9,"ts":49816.8,"dur":3.316,"args":{"External id":614,"Input Dims":[[1,64],[]]}},
{"ph":"X","cat":"user_annotation","name":"Optimizer.step#AdamW.step","pid":1,"tid":5,"ts":74998.436,"dur":1676.195,"args":{"External id":441}},
{"ph":"X","cat":"cpu_op","name":"aten::_foreach_add_","pid":1,"tid":5,"ts":75585.681,"dur":79.659,"args":{"External id":447}})";
