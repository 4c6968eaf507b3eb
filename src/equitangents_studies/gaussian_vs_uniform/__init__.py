"""The study `gaussian-vs-uniform`: does it matter from which law the first layer's weights are drawn?"""
