/* The wire record of one request served: made by request.bpf.c when the reply is out. */
#pragma once

#include "wire.h"
